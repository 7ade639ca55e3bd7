/*
 * files.h: tensors in files: safetensors, NumPy's .npy and .npz, and what torch.save writes.
 *
 * What is read is believed in nothing: a file that is cut short, crafted or of another kind fails
 * with RG_IO_ERROR and a sentence that names the file, the tensor and what is wrong. Types that
 * regard lacks become the one that holds all their values: float16, bfloat16 and the float8s
 * float32, and the other integers int64. A file is written beside its place, synced and renamed, so
 * that whoever opens it meets the old file or the new one.
 */
#pragma once

#include "tensor.h"

RG_PUBLIC_BEGIN

RG_PUBLIC_END
