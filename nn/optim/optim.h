/*
 * optim.h: includes all headers that correspond to torch.optim: optimizers, gradient clipping,
 * schedules of the learning rate, and averages of weights.
 *
 *     rg_optim *o = rg_optim_adamw(rg_parameters(model), .lr = 3e-4, .betas = { 0.9, 0.95 });
 *     rg_schedule *s = rg_optim_warmup_cosine_lr(o, 100, 2000, 0.01, 3e-5);
 *     RG_FOR (int i = 0; i < 2000; i++) {
 *         rg_optim_zero_grad(o);
 *         rg_backward(loss(model));
 *         rg_clip_grad_norm_(rg_parameters(model), 1.0);
 *         rg_optim_step(o);
 *         rg_schedule_step(s);
 *     }
 *     rg_optim_free(o);
 */
#pragma once

#include "optimizer.h"
#include "averaged_model.h"
#include "clip.h"
#include "schedule.h"
