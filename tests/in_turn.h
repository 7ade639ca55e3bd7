/*
 * in_turn.h: what a function needs is denied to it, one thing after another, and nothing may be
 * left of a call that fails.
 */
#pragma once

#include <stdbool.h>

/* Calls f, in a scope of its own, with each request for memory denied in turn, until it gets
 * through. Where it doesn't, the error must be that of the request; either way no file stays open
 * and no memory is taken. What else must hold is asserted by `after`, which is told whether f got
 * through, and may be NULL. Returns how many requests there were. */
long deny_in_turn(bool (*f)(void), void (*after)(bool done));

/* Clears an error that f itself has provoked, so that another may stand in its place. */
void forget_failure(void);

/* A thread's list of what its scopes own grows seldom, and then asks for memory. Calls f in new
 * threads whose lists are full after one tensor more, after two, and so on up to `most`, and denies
 * them the room. f must fail then with RG_OUT_OF_MEMORY's error, or get through without. */
void starve_in_turn(bool (*f)(void), int most);

/* Does the same with each call of the file system: first each one fails, and then each read and
 * each write moves nothing. The function may get through only where what failed was to close a
 * file, or came after a rename. At last all calls move few bytes and are interrupted, and it must
 * get through. Returns how many calls there were. */
long fail_in_turn(bool (*f)(void), void (*after)(bool done));
