/* SPDX-License-Identifier: Apache-2.0
 *
 * ranks_fixture.h - several ranks inside a test: forked, and joined by boot/local as its supervisor
 * would.
 */
#ifndef ZR_TESTS_RANKS_FIXTURE_H
#define ZR_TESTS_RANKS_FIXTURE_H

/* Each of n children runs fn(rank, arg) and ends with what it returns, at most 255; nothing of
 * cmocka may be called there. Returns the sum of the exit codes, 1000 for each rank that died. */
int ranks_fork(int n, int (*fn)(int rank, void *arg), void *arg);

/* A descriptor for ZEROTH_LOCAL_FD, as the supervisor of so many ranks makes it. */
int ranks_meeting(int ranks);

/* Zeroed memory that ranks and the test share; never freed. */
void *ranks_shared(unsigned long bytes);

#endif
