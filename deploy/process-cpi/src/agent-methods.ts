import { appendFileSync } from "node:fs";
import { loadavg, uptime } from "node:os";
import { join } from "node:path";
import type { AgentMethod } from "@diskmesh/mbus";
import type { AgentDisks } from "./agent-disks.js";
import { sendLogs, type WantedLogs } from "./agent-logs.js";
import type { AgentState, Updated } from "./agent-state.js";
import type { Settings } from "./protocol.js";

export interface AgentParts {
  readonly folder: string;
  readonly settings: Settings;
  readonly state: AgentState;
  readonly disks: AgentDisks;
}

/** Delay in ms between the answer to update_settings and the agent's exit, which applies the settings. */
const EXIT_DELAY_MS = 1_000;

/**
 * Returns the methods that a director calls on a VM without jobs. Long tasks run after their answer, one after another.
 */
export function agentMethods(parts: AgentParts): Record<string, AgentMethod> {
  return { ...stateMethods(parts), ...diskMethods(parts.disks) };
}

type Run = (...args: readonly unknown[]) => unknown;

const method =
  (mode: AgentMethod["mode"]) =>
  (minArguments: number, run: Run): AgentMethod => ({ mode, minArguments, run: async (args) => run(...args) });
const sync = method("sync");
const task = method("async");

function stateMethods({ folder, settings, state }: AgentParts): Record<string, AgentMethod> {
  const jobsAre = (jobState: string, said: unknown) => () => {
    state.setJobState(jobState);
    return said;
  };
  return {
    info: sync(0, () => ({ api_version: 1 })),
    get_state: sync(0, (filter) => ({
      networks: settings.networks,
      packages: {},
      resource_pool: {},
      ...state.spec,
      agent_id: settings.agent_id,
      job_state: state.jobState,
      processes: [],
      vm: settings.vm,
      ...(filter === "full" && { vitals: vitals() }),
    })),
    update_settings: task(1, (changed) => {
      if (!state.update(changed as Updated)) return "ok";
      // Never resolves: the process exits, and its successor answers the director's later calls.
      return new Promise(() => setTimeout(() => process.exit(0), EXIT_DELAY_MS));
    }),
    prepare: task(1, () => "prepared"),
    apply: task(1, (spec) => {
      state.apply(spec as AgentState["spec"]);
      return "applied";
    }),
    start: sync(0, jobsAre("running", "started")),
    stop: task(0, jobsAre("stopped", "stopped")),
    drain: task(1, () => 0),
    run_script: task(2, () => ({})),
    fetch_logs_with_signed_url: task(1, (wanted) =>
      sendLogs(folder, wanted as WantedLogs, state.logAuthorities(settings)),
    ),
  };
}

function diskMethods(disks: AgentDisks): Record<string, AgentMethod> {
  const done = (run: (cid: string, hint: unknown) => unknown): Run => {
    return async (cid, hint) => {
      await run(String(cid), hint);
      return {};
    };
  };
  return {
    list_disk: task(0, () => disks.mounted),
    add_persistent_disk: task(
      2,
      done((cid, hint) => disks.addPersistent(cid, hint)),
    ),
    remove_persistent_disk: task(
      1,
      done((cid) => disks.removePersistent(cid)),
    ),
    mount_disk: task(
      1,
      done((cid) => disks.mount(cid)),
    ),
    unmount_disk: task(
      1,
      done((cid) => disks.unmount(cid)),
    ),
    add_dynamic_disk: task(
      2,
      done((cid, hint) => disks.link(cid, hint)),
    ),
    remove_dynamic_disk: sync(
      1,
      done((cid) => disks.unlink(cid)),
    ),
  };
}

/** Returns the heartbeat for the health monitor. */
export function heartbeatOf(settings: Settings, { spec, jobState }: AgentState): object {
  const {
    deployment = "",
    job,
    index = null,
  } = spec as { deployment?: string; job?: { name?: string }; index?: number };
  return {
    deployment,
    job: job?.name ?? null,
    index,
    job_state: jobState,
    vitals: vitals(),
    node_id: settings.vm.name,
    number_of_processes: null,
  };
}

function vitals(): object {
  return { load: loadavg().map((load) => load.toFixed(2)), uptime: { secs: Math.round(uptime()) } };
}

/** Wraps methods so that each request is appended to a file before it runs. */
export function recorded(folder: string, methods: Record<string, AgentMethod>): Record<string, AgentMethod> {
  const entries = Object.entries(methods).map(([name, method]): [string, AgentMethod] => [
    name,
    {
      ...method,
      run(args, signal) {
        appendFileSync(join(folder, "asked.jsonl"), `${JSON.stringify([name, ...args])}\n`, { mode: 0o600 });
        return method.run(args, signal);
      },
    },
  ]);
  return Object.fromEntries(entries);
}
