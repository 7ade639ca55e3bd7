/*
 * show.h: includes the headers of the examples: options and files, a progress line, and pictures.
 */
#pragma once

#include "options.h"
#include "progress.h"
#include "pictures.h"
