import type { Usage } from "./watched-processes.js";

/** Memory that a process held after this number of inputs. */
export interface HeldSample {
  readonly inputs: number;
  readonly usage: Pick<Usage, "heapBytes" | "resources">;
}

/** Number of samples whose median is used, because work in progress changes a sample by 1 or 2 MiB. */
const AT_EACH_END = 3;
const MIN_SAMPLES = 2 * AT_EACH_END;
const MIB_BYTES = 1024 * 1024;
const MAX_GROWTH_BYTES = 4 * MIB_BYTES;
/** Maximum growth per input in bytes, in a long run. An entry of a map takes more. */
const MAX_GROWTH_BYTES_PER_INPUT = 32;
/** Maximum growth of the number of resources. Allows the hundreds of timers of connections that are closing. */
const MAX_MORE_RESOURCES = 500;

/**
 * Returns a text about a process's growth from the first samples to the last; undefined for none. Heap bytes and
 * handles count, beyond their normal variation. Each sample was taken after a garbage collection.
 */
export function growthOf(samples: readonly HeldSample[]): string | undefined {
  if (samples.length < MIN_SAMPLES) return undefined;
  const [first, last] = [samples.slice(0, AT_EACH_END), samples.slice(-AT_EACH_END)];
  const moreOf = (field: (sample: HeldSample) => number): number => middle(last.map(field)) - middle(first.map(field));
  const inputs = moreOf((sample) => sample.inputs);
  const bytes = moreOf(({ usage }) => usage.heapBytes ?? 0);
  const resources = moreOf(({ usage }) => usage.resources ?? 0);
  if (bytes > Math.max(MAX_GROWTH_BYTES, MAX_GROWTH_BYTES_PER_INPUT * inputs))
    return `${(bytes / MIB_BYTES).toFixed(1)} MiB more of heap after ${inputs} inputs, ${Math.round(bytes / inputs)} bytes each`;
  if (resources > MAX_MORE_RESOURCES) return `${resources} more handles and timers after ${inputs} inputs`;
  return undefined;
}

function middle(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
