import { setTimeout as sleep } from "node:timers/promises";
import type { IoLimits } from "@diskmesh/domain";
import { Gate } from "@diskmesh/testkit";
import { cidOfHost } from "../cid.js";
import type { Cpi, NewVm } from "../cpi.js";

export interface MemoryVm {
  readonly vmCid: string;
  readonly agentId: string;
  /** Name of the CPI that created the object. */
  readonly cpi: string;
  readonly request: NewVm;
  metadata: object;
}

export interface MemoryDisk {
  readonly diskCid: string;
  readonly cpi: string;
  sizeMib: number;
  cloudProperties: object;
  /** CID of the VM that the disk is attached to; empty when detached. */
  vmCid: string;
  readOnly: boolean;
  limits: IoLimits | undefined;
  metadata: object;
}

type When = "before" | "after";

/** Time limit for calls that wait for each other (`awaitedAtOnce`), and interval of their checks. */
const OTHERS_TIMEOUT_MS = 5_000;
const CHECK_INTERVAL_MS = 5;

/** An infrastructure in memory behind one or more CPIs. Tests can hold its calls and make them fail. */
export class MemoryCloud {
  readonly vms = new Map<string, MemoryVm>();
  readonly disks = new Map<string, MemoryDisk>();
  /** CPI and image of each stemcell by CID. */
  readonly stemcells = new Map<string, { readonly cpi: string; readonly image: string }>();
  /** Disk and metadata of each snapshot by CID. */
  readonly snapshots = new Map<string, { readonly diskCid: string; readonly metadata: object }>();
  /** Every call that succeeded, e.g. "createDisk disk-1". */
  readonly calls: string[] = [];
  /** API versions by CPI name; 2 by default. */
  readonly apiVersions = new Map<string, number>();
  /** Stemcell formats by CPI name; any format by default. */
  readonly formats = new Map<string, readonly string[]>();
  /** Methods that all CPIs refuse as not implemented. */
  readonly lacking = new Set<keyof Cpi>();
  /** Names of CPIs that need no stemcells, and of CPIs that fail to make them. */
  readonly withoutStemcells = new Set<string>();
  readonly brokenCpis = new Set<string>();
  /** True when a repeated createVm or createDisk finds the object of the first call. */
  findsByToken = true;
  /** VM near which each created disk was to be placed, in order of creation; empty for none. */
  readonly nearVms: string[] = [];
  /** CIDs that calls return, by method, even when another object has the same CID. */
  readonly cidsToGive = new Map<keyof Cpi, string>();
  /** True when createVm requires a stemcell, cloud properties and networks. */
  needsVmSpec = false;
  /** Sizes of disks are multiples of it. */
  diskUnitMib = 1;
  /** True when resizeDisk accepts attached disks. */
  resizesAttached = false;
  /** Lines that each call logs. */
  noise: readonly string[] = [];
  capacityMib = 10_000;
  /** Duration of each call, except of the CPIs in `nearCpis`. */
  callMs = 0;
  readonly nearCpis = new Set<string>();
  callCount = 0;
  /** Maximum number of concurrent calls so far, by method. */
  readonly mostAtOnce = new Map<keyof Cpi, number>();
  /** Number of concurrent calls that a method waits for, by method, up to a time limit. */
  readonly awaitedAtOnce = new Map<keyof Cpi, number>();
  readonly #running = new Map<keyof Cpi, number>();
  /** False when a call held at a gate ignores that its caller gave up. */
  endsCalls = true;
  readonly #gates: { readonly method: keyof Cpi; readonly when: When; readonly gate: Gate }[] = [];
  readonly #failures: { readonly method: keyof Cpi; readonly when: When; readonly error: Error }[] = [];

  constructor(
    /** Hosts whose agents run in the VMs, one for each VM. When empty, a VM's agent has the requested agent id. */
    readonly hostIds: readonly string[] = [],
  ) {}

  /** Adds a host of a CPI that can be used without a VM. */
  addHost(hostId: string, az: string, cpi = ""): void {
    const request = { agentId: "", stemcellCid: "", cloudProperties: {}, networks: {}, diskCids: [], env: {}, az };
    const vmCid = cidOfHost(hostId);
    this.vms.set(`${cpi}:${vmCid}`, { vmCid, agentId: "", cpi, request, metadata: {} });
  }

  /** Holds the next call of the method before or after its effect. */
  gate(method: keyof Cpi, when: When): Gate {
    const gate = new Gate();
    this.#gates.push({ method, when, gate });
    return gate;
  }

  /** Makes the next call of the method fail before or after its effect. */
  failNext(method: keyof Cpi, error: Error, when: When = "before"): void {
    this.#failures.push({ method, when, error });
  }

  /** Counts a call, and delays it by `awaitedAtOnce` and `callMs`. */
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
      while (areMissing() && performance.now() < untilMs) await sleep(CHECK_INTERVAL_MS, undefined, { signal });
      if (this.callMs > 0 && !this.nearCpis.has(cpi)) await sleep(this.callMs, undefined, { signal });
      return await call();
    } finally {
      this.#running.set(method, (this.#running.get(method) ?? 1) - 1);
    }
  }

  /** Applies the next matching gate and failure to a call. */
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
