import { setTimeout as sleep } from "node:timers/promises";
import { Gate } from "@diskmesh/testkit";
import type { Cpi, NewVm } from "../cpi.js";

export interface MemoryVm {
  readonly vmCid: string;
  readonly agentId: string;
  /** The name of the CPI that made it. */
  readonly cpi: string;
  readonly request: NewVm;
  metadata: object;
}

export interface MemoryDisk {
  readonly diskCid: string;
  readonly cpi: string;
  sizeMib: number;
  cloudProperties: object;
  /** The VM that it is attached to; empty when to none. */
  vmCid: string;
  metadata: object;
}

type When = "before" | "after";

/** How long a call waits for those that a test expects beside it, and how often it looks. */
const OTHERS_TIMEOUT_MS = 5_000;
const LOOK_MS = 5;

/** An infrastructure in memory, behind one CPI or several, whose calls tests can stop and make fail. */
export class MemoryCloud {
  readonly vms = new Map<string, MemoryVm>();
  readonly disks = new Map<string, MemoryDisk>();
  /** The CPI and image of each stemcell, by its id. */
  readonly stemcells = new Map<string, { readonly cpi: string; readonly image: string }>();
  /** The disk and metadata of each snapshot, by its id. */
  readonly snapshots = new Map<string, { readonly diskCid: string; readonly metadata: object }>();
  /** Every call that had an effect or found it, e.g. "createDisk disk-1". */
  readonly calls: string[] = [];
  /** API versions by CPI; 2 for a CPI that is missing here. */
  readonly apiVersions = new Map<string, number>();
  /** Stemcell formats by CPI; any format for a CPI that is missing here. */
  readonly formats = new Map<string, readonly string[]>();
  /** Methods that no CPI has. */
  readonly lacking = new Set<keyof Cpi>();
  /** CPIs that need no stemcells, and CPIs that fail to make them. */
  readonly withoutStemcells = new Set<string>();
  readonly brokenCpis = new Set<string>();
  /** createVm and createDisk find what they made before. */
  findsByToken = true;
  /** The VM near which each disk was to be made; empty for none. */
  readonly nearVms: string[] = [];
  /** CIDs that the next calls give, by method, also where another thing has them. */
  readonly cidsToGive = new Map<keyof Cpi, string>();
  /** createVm takes nothing less than a stemcell, cloud properties and networks. */
  needsVmSpec = false;
  /** Written to the log of each call. */
  noise: readonly string[] = [];
  capacityMib = 10_000;
  /** How long each call takes, as an infrastructure far away; with CPIs that are near, none. */
  callMs = 0;
  readonly nearCpis = new Set<string>();
  /** Counts the calls of all methods and CPIs. */
  callCount = 0;
  /** The most calls of each method that ran at the same time. */
  readonly mostAtOnce = new Map<keyof Cpi, number>();
  /** Calls that must run at the same time, by method: each waits a while until so many have come. */
  readonly awaitedAtOnce = new Map<keyof Cpi, number>();
  readonly #running = new Map<keyof Cpi, number>();
  /** True when calls that wait at a gate end once their caller has given up. */
  endsCalls = true;
  readonly #gates: { readonly method: keyof Cpi; readonly when: When; readonly gate: Gate }[] = [];
  readonly #failures: { readonly method: keyof Cpi; readonly when: When; readonly error: Error }[] = [];

  constructor(
    /** Hosts whose agents its VMs have, one each; without any, an agent goes by the id that was asked for. */
    readonly hostIds: readonly string[] = [],
  ) {}

  /** The next call of the method stops before, or after, its effect. */
  gate(method: keyof Cpi, when: When): Gate {
    const gate = new Gate();
    this.#gates.push({ method, when, gate });
    return gate;
  }

  /** The next call of the method fails before, or after, its effect. */
  failNext(method: keyof Cpi, error: Error, when: When = "before"): void {
    this.#failures.push({ method, when, error });
  }

  /** Runs one call, in the time that it takes, beside the others. */
  async timed<Result>(
    method: keyof Cpi,
    { cpi, signal }: { readonly cpi: string; readonly signal: AbortSignal },
    call: () => Promise<Result>,
  ): Promise<Result> {
    this.callCount++;
    const running = (this.#running.get(method) ?? 0) + 1;
    this.#running.set(method, running);
    this.mostAtOnce.set(method, Math.max(running, this.mostAtOnce.get(method) ?? 0));
    try {
      const untilMs = performance.now() + OTHERS_TIMEOUT_MS;
      const areMissing = () => (this.mostAtOnce.get(method) ?? 0) < (this.awaitedAtOnce.get(method) ?? 0);
      while (areMissing() && performance.now() < untilMs) await sleep(LOOK_MS, undefined, { signal });
      if (this.callMs > 0 && !this.nearCpis.has(cpi)) await sleep(this.callMs, undefined, { signal });
      return await call();
    } finally {
      this.#running.set(method, (this.#running.get(method) ?? 1) - 1);
    }
  }

  /** Where a call waits at its gate, and fails. */
  async pass(method: keyof Cpi, when: When, signal: AbortSignal): Promise<void> {
    const isMeant = (each: { readonly method: keyof Cpi; readonly when: When }) =>
      each.method === method && each.when === when;
    const [gated] = this.#gates.splice(indexOrEnd(this.#gates, isMeant), 1);
    await gated?.gate.pass(this.endsCalls ? signal : undefined);
    const [failing] = this.#failures.splice(indexOrEnd(this.#failures, isMeant), 1);
    if (failing) throw failing.error;
  }
}

function indexOrEnd<Each>(list: readonly Each[], isMeant: (each: Each) => boolean): number {
  const index = list.findIndex(isMeant);
  return index < 0 ? list.length : index;
}
