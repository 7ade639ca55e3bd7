/*
 * in_turn.h: calls a function again and again, and denies each of its requests for memory, or lets
 * each of its calls of the file system fail, one at a time. A call that fails must leave nothing
 * behind.
 */
#pragma once

#include <stdbool.h>

/* Calls f, in a scope of its own, with each request for memory denied in turn, until f succeeds. If
 * f fails, the error must be that of the denied request. After each call no file may be open and no
 * memory may be left. `after`, which may be NULL, asserts further conditions; `done` says whether f
 * succeeded. Where the program is slow (rg_slow), only each third request after the 60th is denied.
 * Returns the number of requests, or one or two more in a slow program. */
long deny_in_turn(bool (*f)(void), void (*after)(bool done));

/* Clears an error that f itself has provoked, so that another error can replace it. */
void forget_failure(void);

/* A thread has a list of the references that its scopes own. The list requests memory only when it
 * grows, which is seldom. This function calls f in new threads whose lists are full after one more
 * tensor, after two, and so on up to `most`, and denies the request. f must fail with
 * RG_OUT_OF_MEMORY, or succeed without the request. */
void starve_in_turn(bool (*f)(void), int most);

/* Does the same as deny_in_turn, but lets calls of the file system fail. First each call fails in
 * turn. Then each read and each write moves nothing in turn. f may succeed only if the call that
 * failed closed a file, or came after a rename. Finally all calls move few bytes and are
 * interrupted, and f must succeed. Returns the number of calls. */
long fail_in_turn(bool (*f)(void), void (*after)(bool done));
