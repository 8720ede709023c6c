// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

// Package executor is the life of a call: it accepts, runs, streams and ends
// each one exactly once. What happens is a numbered log that any number of
// readers follow at their own pace; an execution outlives the caller that began
// it, and a client that lost its stream continues where it was.
//
// An [Order] is data; a [Job] is an order with what carries it out in this process; an
// [Execution] is what a job becomes.
//
// # Locks
//
// In this order; whoever holds one takes only those after it:
//
//  1. Executor.mu: which executions there are, by number and by call id
//  2. Execution.emitting: the order of what a tool reports, and the offsets of output
//  3. Execution.mu: where an execution stands, its timers and its input
//  4. one of: the lock of the approvals, lanes.mu, eventLog.mu, watchers.mu, the lock
//     of a session
//  5. Batch.mu: the order of the events of a batch
//
// The locks of records (Records.mu, histories.mu, recordPlaces.mu, fairRate.mu) and textBudget.mu are
// taken last, and one at a time. sharedScan.turn, which has several who ask for the same scan wait for one, comes
// before them. It and Batch.following, with which a call that waits may be cancelled, are the only locks that
// are held while the engine is asked.
//
// Batch.following, who follows the executions of a batch, comes before all of them.
//
// Executor.mu and Execution.emitting are never held together. The executor asks with
// Execution.mu held, so that a question is in the log before its answer; the approvals
// call the executor with the answer without a lock. Turns of lanes and the methods of
// [Steps] are called without a lock but Batch.following, which nothing that they call
// takes. Sessions are resolved without a lock.
//
// # The event log
//
// A log is open until its last event is in. The writer waits only where the log is
// full and the reader that sets the pace has not taken what would be dropped:
//
//	            append                       full, and the pace is behind
//	          +---------+                   +------------------------------+
//	          v         |                   |                              v
//	empty -> open ------+-------------------+                           waiting
//	          |  ^                                                         |
//	          |  +-- the pace took half of the log, or nothing for a ------+
//	          |      while (it is stalled until it moves), or the execution ends
//	          |
//	          | end
//	          v
//	        ended -- retention is over, or memory is short --> forgotten
//
// A reader is reading (there is an event after its place), waiting (there is none, and
// its wake channel is filled by the next), behind (what it wants was dropped: it gets
// Skipped and reads on), or done (the log ended and it has the last event).
//
// # Goroutines
//
// Each execution that runs has one, which runs the tool and ends the execution; the
// executor counts it until the end is written. A tool that does not stop keeps its
// goroutine, and nobody waits for the tool. A call that waits for an answer or for its
// turn has no goroutine: the answer, or the end of the call before it, starts one.
// A batch has none: its events are noted by those who write the logs of its executions,
// and brought by whoever calls its methods.
// Records have one that stores what ended, until they are closed, and one that finds what
// was stored before, which ends by itself.
// Timers (timeout, grace, progress, expiry) belong to the execution or executor that
// set them, and are stopped at its end. Readers run on the goroutines of those who read.
package executor
