// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

/** The TypeScript client of toolserver: list, execute, batch, watch, approve, render, parse and serve. */

export { type Agent, type Report, type Serving, Task } from "./agents.js";
export { Batch, type BatchResult, Detached } from "./batch.js";
export type { Call } from "./calls.js";
export { allow, answer, type Answer, Client, deny, forModel, type Options, result, text, unread } from "./client.js";
export * from "./gen/toolserver/v1/approval_pb.js";
export * from "./gen/toolserver/v1/batch_pb.js";
export * from "./gen/toolserver/v1/content_pb.js";
export * from "./gen/toolserver/v1/dialect_service_pb.js";
export * from "./gen/toolserver/v1/event_pb.js";
export * from "./gen/toolserver/v1/execution_pb.js";
export * from "./gen/toolserver/v1/session_pb.js";
export * from "./gen/toolserver/v1/tool_pb.js";
