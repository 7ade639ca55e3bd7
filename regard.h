/* regard.h: includes all that is public. Programs write #include <regard/regard.h>, and those in
 * the source tree, which are compiled with -I., "regard.h". */
#pragma once
#define RG_VERSION "0.1.0"

#include "tensor/tensor.h"
#include "tensor/files.h"
#include "autograd/autograd.h"
#include "autograd/replay.h"
#include "autograd/ops.h"
#include "autograd/function.h"
#include "autograd/functional.h"
#include "nn/nn.h"
#include "nn/init.h"
#include "nn/attention.h"
#include "nn/positions.h"
#include "nn/transformer.h"
#include "nn/models/gpt.h"
#include "nn/models/gpt_folder.h"
#include "nn/models/vocabulary.h"
#include "nn/models/batches.h"
#include "nn/models/tokenizer.h"
#include "nn/optim.h"
#include "nn/checkpoint.h"
