// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

import { useEffect, useRef, useState } from "preact/hooks";
import type { AuditRecordJson, SearchRecordsRequestJson, SearchRecordsResponseJson, VerifyLogResponseJson } from "./gen/toolserver/v1/audit_service_pb";
import * as api from "./api";
import { hasRole, sayError, useKeys } from "./store";
import { caller, clock, visible } from "./words";

const steps = ["proposed", "verdict", "approval", "started", "input", "finished", "violation", "hook", "transfer", "cancelled", "session_created", "session_changed", "session_closed", "granted", "revoked", "stopped", "resumed", "tools_approved", "agents_served", "over_quota", "reloaded", "opened", "closed", "recovered", "gap", "rotated", "continued"];

// Audit searches the log of everything, and verifies that nobody changed it.
export function Audit() {
  const [query, setQuery] = useState<SearchRecordsRequestJson>({});
  const [records, setRecords] = useState<AuditRecordJson[]>([]);
  const [next, setNext] = useState<string | undefined>();
  const [report, setReport] = useState<VerifyLogResponseJson | undefined>();
  const [busy, setBusy] = useState(false);
  const [open, setOpen] = useState<string | undefined>();
  const search = useRef<HTMLInputElement>(null);
  const may = hasRole("operator", "viewer");
  const load = async (before?: string) => {
    const page = await api.get<SearchRecordsResponseJson, SearchRecordsRequestJson>("audit/records", { ...query, pageSize: 100, ...(before ? { before } : {}) });
    setRecords((now) => (before ? [...now, ...(page.records ?? [])] : page.records ?? []));
    setNext(page.nextBefore);
  };
  useEffect(() => {
    if (!may) return;
    const timer = setTimeout(() => load().catch(sayError), 200);
    return () => clearTimeout(timer);
  }, [query]);
  useKeys({ "/": () => search.current?.focus(), Escape: () => search.current?.blur() });
  const verify = async () => {
    setBusy(true);
    await api.get<VerifyLogResponseJson>("audit/verification").then(setReport, sayError);
    setBusy(false);
  };
  const set = (change: SearchRecordsRequestJson) => setQuery({ ...query, ...change });
  return (
    <>
      <div class="title">
        <h1>Audit</h1>
        <p class="dim">Every step of every call, in a chain that shows tampering.</p>
        <span class="grow" />
        {may && (
          <button class="primary" disabled={busy} onClick={verify}>
            {busy ? "Verifying…" : "Verify"}
          </button>
        )}
      </div>
      {!may && <p class="dim">Only operators and viewers see the audit log.</p>}
      {report && (
        <section class="panel" role="status">
          <p>
            {report.intact ? <span class="badge yes">intact</span> : <span class="badge no">not as it was written</span>} {report.records ?? 0} records, number {report.firstSequence ?? 0} to {report.lastSequence ?? 0}, {clock(report.beginTime)} to {clock(report.endTime)}
          </p>
          {report.problems?.map((p) => <p class="wrong">{visible(p)}</p>)}
          {report.moreProblems && <p class="wrong">and {report.moreProblems} more</p>}
          <p class="dim">
            last hash <code>{report.lastHash}</code>: note it elsewhere, for a log cannot show by itself that its end was removed.
          </p>
        </section>
      )}
      {may && (
        <section class="panel">
          <div class="filters">
            <input ref={search} type="search" aria-label="Search records" placeholder="Any text (/)" onInput={(e) => set({ query: e.currentTarget.value })} />
            <input aria-label="Principal" placeholder="principal" onInput={(e) => set({ principal: e.currentTarget.value.trim() })} />
            <input aria-label="Tool" placeholder="tool" onInput={(e) => set({ tool: e.currentTarget.value.trim() })} />
            <select aria-label="Step" onChange={(e) => set({ step: e.currentTarget.value })}>
              <option value="">every step</option>
              {steps.map((step) => (
                <option>{step}</option>
              ))}
            </select>
          </div>
          <div class="scroll" tabIndex={0} role="group" aria-label="Records">
            <table>
              <thead>
                <tr>
                  <th scope="col">number</th>
                  <th scope="col">when</th>
                  <th scope="col">step</th>
                  <th scope="col">who</th>
                  <th scope="col">tool</th>
                  <th scope="col">what</th>
                </tr>
              </thead>
              <tbody>
                {records.map((r) => (
                  <>
                    <tr key={r.sequence}>
                      <td>
                        <button class="quiet" aria-expanded={open === r.sequence} aria-label={`Record ${r.sequence}`} onClick={() => setOpen(open === r.sequence ? undefined : r.sequence)}>
                          {r.sequence}
                        </button>
                      </td>
                      <td>{clock(r.time)}</td>
                      <td>{visible(r.step)}</td>
                      <td>{caller(r.tenant, r.principal, "")}</td>
                      <td>{visible(r.tool)}</td>
                      <td>{visible([r.action, r.outcome, r.rule, r.reason, r.by && `by ${r.by}`].filter(Boolean).join(" · "))}</td>
                    </tr>
                    {open === r.sequence && (
                      <tr>
                        <td colSpan={6}>
                          <pre class="block" tabIndex={0}>
                            {visible(r.line)}
                          </pre>
                        </td>
                      </tr>
                    )}
                  </>
                ))}
              </tbody>
            </table>
          </div>
          {next && next !== "0" && <button onClick={() => load(next).catch(sayError)}>Older</button>}
        </section>
      )}
    </>
  );
}
