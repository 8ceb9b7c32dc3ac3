import type { DiskIo, IoTotals } from "@diskmesh/api/registry";
import { allEnded, DURATION_BUCKETS_SECONDS, histogramOf, metric, observe } from "@diskmesh/metrics";

const OPERATIONS = ["read", "write", "flush", "discard", "zero"] as const;
export type IoOperation = (typeof OPERATIONS)[number];

/** Maximum disks that have their own metrics, because a host serves hundreds over time. */
const MAX_NAMED_DISKS = 256;
const OTHERS = "others";

const DISK_LABEL = {
  disk_id: `the first ${MAX_NAMED_DISKS} disks since the agent's start; all others are "${OTHERS}"`,
};
const LABELS = { ...DISK_LABEL, operation: OPERATIONS };
const LATENCY_BUCKETS_SECONDS = [0.00025, ...DURATION_BUCKETS_SECONDS];

/** Metrics of the I/O of an agent's exports. */
export const nbdMetrics = {
  operations: metric({
    kind: "observed counter",
    name: "diskmesh.nbd.operations",
    unit: "{operation}",
    description:
      "Requests answered, including failed requests, by disk and operation. Those of NBD clients where the agent serves " +
      "the disk, those of its block device where the kernel does.",
    labels: LABELS,
  }),
  size: metric({
    kind: "observed counter",
    name: "diskmesh.nbd.io",
    unit: "By",
    description:
      "Bytes read, written, discarded and zeroed, by disk and operation. A block device counts zeroings as writes, and " +
      "also the bytes of failed requests.",
    labels: LABELS,
  }),
  errors: metric({
    kind: "observed counter",
    name: "diskmesh.nbd.errors",
    unit: "{operation}",
    description: "Failed requests, by disk and operation.",
    labels: LABELS,
  }),
  time: metric({
    kind: "observed counter",
    name: "diskmesh.nbd.operation.time",
    unit: "s",
    description:
      "Total duration of requests, by disk and operation. The mean is this value divided by the number of " +
      "operations.",
    labels: LABELS,
  }),
  latency: metric({
    kind: "histogram",
    name: "diskmesh.nbd.operation.duration",
    unit: "s",
    description: "Duration of NBD requests of all disks that the agent serves itself, by operation.",
    labels: { operation: OPERATIONS },
    buckets: LATENCY_BUCKETS_SECONDS,
  }),
};

interface Sums {
  operations: number;
  sizeBytes: number;
  errors: number;
  timeMs: number;
}

/** I/O of a block device since the kernel made it. */
export type DeviceIo = Readonly<
  Record<"read" | "write" | "flush" | "discard", Pick<Sums, "operations" | "sizeBytes" | "timeMs">>
>;

interface Followed {
  readonly sums: SumsByOperation;
  readonly read: () => DeviceIo | undefined;
  last: DeviceIo | undefined;
}

type SumsByOperation = Readonly<Record<IoOperation, Sums>>;

const noSums = (): Sums => ({ operations: 0, sizeBytes: 0, errors: 0, timeMs: 0 });
const noneOfAny = (): SumsByOperation =>
  Object.fromEntries(OPERATIONS.map((operation) => [operation, noSums()])) as SumsByOperation;
const LATENCY_LABELS = Object.fromEntries(OPERATIONS.map((operation) => [operation, { operation }])) as Readonly<
  Record<IoOperation, { readonly operation: IoOperation }>
>;

/** The counters of a disk, without its queue. */
export type DiskCounts = Pick<DiskIo, "reads" | "readBytes" | "writes" | "writtenBytes" | "errors" | "uncounted">;

export const UNCOUNTED: DiskCounts = { reads: 0, readBytes: 0, writes: 0, writtenBytes: 0, errors: 0, uncounted: true };

/** Counts the I/O of an agent's exports, by disk. */
export class IoCounters {
  readonly #disks = new Map<string, SumsByOperation>();
  readonly #followed = new Set<Followed>();

  /** Returns the counters of a disk. The disk's server gets them once and increments them directly. */
  ofDisk(diskId: string): SumsByOperation {
    const known = this.#disks.get(diskId);
    if (known !== undefined) return known;
    const name = this.#disks.size < MAX_NAMED_DISKS ? diskId : OTHERS;
    const sums = this.#disks.get(name) ?? noneOfAny();
    this.#disks.set(name, sums);
    return sums;
  }

  /** Counts a disk's I/O at its block device from now on. Returns the function that counts the last of it. */
  follow(diskId: string, read: () => DeviceIo | undefined): () => void {
    const followed = { sums: this.ofDisk(diskId), read, last: read() };
    this.#followed.add(followed);
    return () => {
      if (this.#followed.has(followed)) addGrowth(followed);
      this.#followed.delete(followed);
    };
  }

  /** Returns the reads and writes of all disks since the agent's start. */
  totals(): IoTotals {
    for (const followed of this.#followed) addGrowth(followed);
    const totals = { reads: 0, readBytes: 0, writes: 0, writtenBytes: 0 };
    for (const { read, write } of this.#disks.values()) {
      totals.reads += read.operations;
      totals.readBytes += read.sizeBytes;
      totals.writes += write.operations;
      totals.writtenBytes += write.sizeBytes;
    }
    return totals;
  }

  /** Returns the I/O of a disk since the agent's start; as not counted when the disk has no counters of its own. */
  diskIo(diskId: string): DiskCounts {
    for (const followed of this.#followed) addGrowth(followed);
    const sums = this.#disks.get(diskId);
    if (sums === undefined) return UNCOUNTED;
    return {
      reads: sums.read.operations,
      readBytes: sums.read.sizeBytes,
      writes: sums.write.operations,
      writtenBytes: sums.write.sizeBytes,
      errors: OPERATIONS.reduce((all, operation) => all + sums[operation].errors, 0),
      uncounted: false,
    };
  }

  /** Reports the counters when metrics are read; returns a function that stops this. */
  observe(): () => void {
    const each = (declaration: (typeof nbdMetrics)["operations"], read: (sums: Sums) => number) =>
      observe(declaration, (say) => {
        for (const followed of this.#followed) addGrowth(followed);
        for (const [disk_id, sums] of this.#disks)
          for (const operation of OPERATIONS) say(read(sums[operation]), { disk_id, operation });
      });
    return allEnded([
      each(nbdMetrics.operations, ({ operations }) => operations),
      each(nbdMetrics.size, ({ sizeBytes }) => sizeBytes),
      each(nbdMetrics.errors, ({ errors }) => errors),
      each(nbdMetrics.time, ({ timeMs }) => timeMs / 1_000),
    ]);
  }
}

function addGrowth(followed: Followed): void {
  const { sums, read, last } = followed;
  const now = read();
  followed.last = now ?? last;
  if (now === undefined || last === undefined) return;
  for (const operation of ["read", "write", "flush", "discard"] as const)
    for (const field of ["operations", "sizeBytes", "timeMs"] as const)
      sums[operation][field] += Math.max(0, now[operation][field] - last[operation][field]);
}

/** Counts one answered request. */
export function countIo(
  sums: SumsByOperation,
  operation: IoOperation,
  of: { readonly sizeBytes: number; readonly durationMs: number; readonly failed: boolean },
): void {
  const sum = sums[operation];
  sum.operations += 1;
  sum.timeMs += of.durationMs;
  if (of.failed) sum.errors += 1;
  else sum.sizeBytes += of.sizeBytes;
  histogramOf(nbdMetrics.latency).record(of.durationMs / 1_000, LATENCY_LABELS[operation]);
}
