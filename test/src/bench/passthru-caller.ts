import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { type MethodTarget, VendorPassthruServiceDefinition } from "@diskmesh/api/director";
import { createClient, type TlsFiles } from "@diskmesh/rpc";
import { eventually } from "@diskmesh/testkit";
import { cpuTimeMs, drainRatePerSecond } from "./measure.js";
import { NOOP, SMALL_MESSAGE_BYTES } from "./noop.js";

export interface PassthruCaller {
  readonly tls: TlsFiles;
  readonly nodeId: string;
  readonly director: Called;
  readonly noop: Called;
  readonly rounds: number;
  /** Sequential calls of each kind per round. */
  readonly calls: number;
}

interface Called {
  readonly address: string;
  /** Processes whose CPU time is measured. */
  readonly pids: readonly number[];
}

/** Results of a round, per call. */
export interface PassthruRound {
  readonly callMs: number;
  readonly noopMs: number;
  readonly callCpuMs: number;
  readonly noopCpuMs: number;
}

const DEADLINE_MS = 60_000;

/**
 * Alternates calls of a node's method with bare RPCs, so that a temporary slowdown of the machine affects both. Runs in
 * its own process, like real callers, because the benchmark's process reads the services' logs and writes them to a
 * file.
 */
export async function callInTurns(
  caller: PassthruCaller,
  onRound: (round: PassthruRound) => void,
): Promise<PassthruRound[]> {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(caller)], {
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const rounds: PassthruRound[] = [];
  child.on("message", (round: PassthruRound) => {
    rounds.push(round);
    onRound(round);
  });
  // Waits for "close" instead of "exit", because the last rounds may be read after the exit.
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`the caller ended with ${code}`);
  return rounds;
}

async function call({ tls, nodeId, director, noop, rounds, calls }: PassthruCaller): Promise<void> {
  const common = { tls, defaultDeadlineMs: DEADLINE_MS };
  const vendors = createClient(VendorPassthruServiceDefinition, {
    ...common,
    address: director.address,
    serverRole: "director",
  });
  const bare = createClient(NOOP, { ...common, address: noop.address, serverRole: "disk-registry" });
  const target: MethodTarget = { target: { $case: "nodeId", value: nodeId } };
  const callMethod = () => vendors.callMethod({ target, method: "third_method_sync", args: { bar: "meow" } });
  const timed = async (work: () => Promise<unknown>, pids: readonly number[]) => {
    const before = cpuOf(pids);
    const rate = await drainRatePerSecond({ concurrency: 1, count: calls }, work);
    return { ms: 1_000 / rate, cpuMs: (cpuOf(pids) - before) / calls };
  };
  await eventually(callMethod);
  const request = Buffer.alloc(SMALL_MESSAGE_BYTES);
  for (let round = 0; round < rounds; round++) {
    const floor = await timed(() => bare.call(request), noop.pids);
    const called = await timed(callMethod, director.pids);
    await tell({ callMs: called.ms, noopMs: floor.ms, callCpuMs: called.cpuMs, noopCpuMs: floor.cpuMs });
  }
  vendors.close();
  bare.close();
  process.disconnect?.();
}

function tell(round: PassthruRound): Promise<void> {
  return new Promise((resolve) => process.send?.(round, () => resolve()));
}

function cpuOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + cpuTimeMs(pid), 0);
}

if (process.send && process.argv[1] === fileURLToPath(import.meta.url)) {
  // The process ends with the benchmark.
  process.once("disconnect", () => process.exit());
  await call(JSON.parse(process.argv[2] ?? ""));
}
