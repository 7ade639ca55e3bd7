/* regard.h: everything: #include <regard/regard.h>, or with -I. "regard.h". */
#ifndef REGARD_H
#define REGARD_H
#include "tensor/tensor.h"
#include "autograd/autograd.h"
#include "autograd/ops.h"
#include "nn/nn.h"
#include "nn/init.h"
#include "nn/text.h"
#include "nn/transformer.h"
#include "nn/optim.h"
#endif
