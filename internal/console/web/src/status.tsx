// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

import { useState } from "preact/hooks";
import type { ListAgentsResponseJson } from "./gen/toolserver/v1/agent_service_pb";
import type { ListSourcesResponseJson, SourceJson } from "./gen/toolserver/v1/source_service_pb";
import type { ListStopsResponseJson } from "./gen/toolserver/v1/session_service_pb";
import type { GetServerInfoResponseJson, LimitsJson } from "./gen/toolserver/v1/tool_service_pb";
import * as api from "./api";
import { everybody, hasRole, say, sayError, server, usePoll } from "./store";
import { clock, seconds, size, span, visible, word } from "./words";

// Status is how the server is: its sandbox, limits, sources, agents, replicas and stops.
export function Status() {
  const info = server.use();
  const [sources, setSources] = useState<ListSourcesResponseJson>({});
  const [agents, setAgents] = useState<ListAgentsResponseJson>({});
  const [stops, setStops] = useState<ListStopsResponseJson>({});
  const refused = usePoll(
    async () => {
      server.set(await api.get<GetServerInfoResponseJson>("server"));
      setSources(await api.get("sources"));
      if (hasRole("agent", "operator", "viewer")) setAgents(await api.get("agents", everybody()));
      if (hasRole("operator", "viewer")) setStops(await api.get("stops"));
    },
    5000,
    [],
  );
  if (!info) return <p class="dim">…</p>;
  const sandbox = info.sandbox ?? {};
  const offer = info.sessions ?? {};
  return (
    <>
      <div class="title">
        <h1>Status</h1>
        <p class="dim">
          {visible(info.version)} · up for {span(Date.now() - new Date(info.startTime ?? 0).getTime())}
        </p>
      </div>
      {refused && <p class="wrong">{visible(refused)}</p>}
      {stops.stops?.map((stop) => (
        <p class="alarm">
          {stop.principal === "*" ? "Everybody is stopped" : `${visible(stop.principal)} is stopped`} since {clock(stop.createTime)} by {visible(stop.by)}: {visible(stop.reason)}
        </p>
      ))}
      <div class="grid">
        <Facts
          title="You"
          facts={[
            ["principal", visible(info.principal)],
            ["tenant", visible(info.tenant) || "default"],
            ["roles", (info.roles ?? []).join(", ") || "none"],
            ["authentication", info.authentication ?? ""],
            ["own calls", info.selfApproval ? "you may approve them" : "somebody else has to approve them"],
          ]}
        />
        <Facts
          title="Sandbox"
          facts={[
            ["commands", sandbox.holds ? <Yes>confined</Yes> : <No>not confined</No>],
            ["namespaces", sandbox.namespaces ? <Yes>yes</Yes> : <No>no</No>],
            ["landlock", sandbox.landlock ? <Yes>version {sandbox.landlock}</Yes> : <No>none</No>],
            ["network", `at most ${word(sandbox.maxNetwork, "NETWORK_")}`],
            ["self-test", sandbox.failedChecks?.length ? <No>{visible(sandbox.failedChecks.join(", "))}</No> : <Yes>nothing failed</Yes>],
          ]}
        />
        <Facts
          title="Sessions"
          facts={[
            ["mode", `${word(offer.defaultMode, "MODE_")}, or ${(offer.modes ?? []).filter((m) => m !== offer.defaultMode).map((m) => word(m, "MODE_")).join(", ")}`],
            ["level", `${word(offer.defaultLevel, "LEVEL_")}, at most ${word(offer.maxLevel, "LEVEL_")}`],
            ["at once", `${offer.maxSessions ?? 0}`],
            ["workspaces", visible((offer.allowedWorkspaces ?? []).join(", ")) || "made for each session"],
          ]}
        />
        <Facts title="Limits" facts={limits(info.limits ?? {})} />
        <Facts title="Features" facts={Object.entries(info.features ?? {}).map(([name, on]) => [visible(name), on ? <Yes>on</Yes> : <span class="badge">off</span>])} />
        {info.replicas && (
          <Facts
            title="Replicas"
            facts={info.replicas.map((r) => [visible(r.id), <>{r.answers && <Yes>answers you</Yes>} {visible(r.version)} since {clock(r.joinTime)}</>])}
          />
        )}
        <section class="panel">
          <h2>Agents</h2>
          {!agents.agents?.length && <p class="dim">There are none.</p>}
          <dl class="facts">
            {agents.agents?.map((agent) => (
              <>
                <dt>{visible(agent.name)}</dt>
                <dd>
                  {agent.unavailableReason ? <No>{visible(agent.unavailableReason)}</No> : <Yes>available</Yes>} {agent.runtimes && `${agent.runtimes.running ?? 0} of ${agent.runtimes.maxTasks ?? 0} tasks`}
                  <span class="dim line">{visible(agent.description)}</span>
                </dd>
              </>
            ))}
          </dl>
        </section>
      </div>
      <Sources sources={sources.sources ?? []} />
    </>
  );
}

type Fact = [string, preact.ComponentChildren];

function Facts({ title, facts }: { title: string; facts: Fact[] }) {
  return (
    <section class="panel">
      <h2>{title}</h2>
      <dl class="facts">
        {facts.map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        ))}
      </dl>
    </section>
  );
}

const Yes = ({ children }: { children: preact.ComponentChildren }) => <span class="badge yes">{children}</span>;
const No = ({ children }: { children: preact.ComponentChildren }) => <span class="badge no">{children}</span>;

function limits(l: LimitsJson): Fact[] {
  return [
    ["unfinished at once", `${l.maxRunning ?? 0}`],
    ["longest call", span(seconds(l.maxTimeout) * 1000)],
    ["input", size(Number(l.maxInputBytes ?? 0))],
    ["result", size(Number(l.maxResultBytes ?? 0))],
    ["events kept", `${size(Number(l.maxLogBytes ?? 0))} a call, for ${span(seconds(l.retention) * 1000)}`],
    ["without followers", span(seconds(l.disconnectGrace) * 1000)],
  ];
}

function Sources({ sources }: { sources: SourceJson[] }) {
  const retry = (name: string) => api.post(`sources/${api.id(name)}/retry`, {}).then(() => say(`${name} is tried again.`), sayError);
  return (
    <section class="panel">
      <h2>Sources of tools</h2>
      {sources.length === 0 ? (
        <p class="dim">All tools are those of the server.</p>
      ) : (
        <div class="scroll" tabIndex={0} role="group" aria-label="Sources">
          <table>
            <thead>
              <tr>
                <th scope="col">source</th>
                <th scope="col">state</th>
                <th scope="col">tools</th>
                <th scope="col">what it says</th>
              </tr>
            </thead>
            <tbody>
              {sources.map((s) => (
                <tr>
                  <td>
                    <b>{visible(s.name)}</b> <span class="dim">{word(s.kind, "TOOL_KIND_")}</span>
                  </td>
                  <td>
                    <span class={`badge ${word(s.state, "SOURCE_STATE_")}`}>{word(s.state, "SOURCE_STATE_")}</span>
                  </td>
                  <td>{s.tools ?? 0}</td>
                  <td>
                    {visible(s.reason)} {s.changedTools?.length ? `${s.changedTools.length} tools changed and wait for an operator. ` : ""}
                    {s.state === "SOURCE_STATE_UNAVAILABLE" && hasRole("operator") && <button onClick={() => retry(s.name!)}>Try again</button>}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
