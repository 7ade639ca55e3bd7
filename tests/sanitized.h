/*
 * sanitized.h: ASAN and TSAN are 1 in a program that GCC or Clang compiles with AddressSanitizer or
 * ThreadSanitizer, and 0 in others.
 */
#pragma once

#ifdef __has_feature
#define HAS_FEATURE_(name) __has_feature(name)
#else
#define HAS_FEATURE_(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE_(address_sanitizer)
#define ASAN 1
#else
#define ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || HAS_FEATURE_(thread_sanitizer)
#define TSAN 1
#else
#define TSAN 0
#endif
