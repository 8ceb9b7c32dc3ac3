import { type FuzzFind, type FuzzResult, findsFolder } from "./run.js";

const MIB_BYTES = 1024 * 1024;

/** Formats a result. */
export function resultLines(result: FuzzResult): string[] {
  const { seed, tookMs, lanes, waits, usages, usagesJudged, provided, finds } = result;
  const seconds = tookMs / 1_000;
  const sent = lanes.reduce((sum, lane) => sum + lane.sent, 0);
  return [
    `${sent} inputs in ${Math.round(seconds)} s; ${provided} disks provided, written, read and taken away meanwhile`,
    ...lanes.map(
      ({ name, sent: count, counts }) =>
        `  ${name.padEnd(14)} ${String(count).padStart(8)} inputs ${(count / seconds).toFixed(0).padStart(6)}/s${most(counts)}`,
    ),
    ...waits.map(
      ({ name, calls, worstMs, worstNetMs }) =>
        `  ${name.padEnd(16)} ${String(calls).padStart(6)} calls, longest wait ${worstMs.toFixed(0).padStart(5)} ms, ${worstNetMs.toFixed(0).padStart(5)} ms of it not the machine's`,
    ),
    ...usages.map(
      ({ name, first, end }) =>
        `  ${name.padEnd(16)} ${mib(first.residentBytes)} -> ${mib(end.residentBytes)} MiB (${(end.residentBytes / first.residentBytes).toFixed(2)} x), heap ${mib(first.heapBytes ?? 0)} -> ${mib(end.heapBytes ?? 0)} MiB, ${first.descriptors} -> ${end.descriptors} descriptors`,
    ),
    ...(usagesJudged ? [] : ["  memory as the system counts it was not judged: the first tenth had too few inputs"]),
    ...(finds.length === 0 ? ["nothing was found"] : finds.flatMap((find) => findLines(find, seed))),
  ];
}

function most(counts: ReadonlyMap<string, number>): string {
  const ordered = [...counts].sort(([, a], [, b]) => b - a).slice(0, 6);
  return ordered.length === 0 ? "" : `  (${ordered.map(([name, count]) => `${name}: ${count}`).join(", ")})`;
}

function mib(bytes: number): string {
  return (bytes / MIB_BYTES).toFixed(0).padStart(5);
}

/** Formats a find with the commands that repeat the suspected inputs. */
function findLines({ what, suspects }: FuzzFind, seed: number): string[] {
  const bySurface = new Map<string, number[]>();
  for (const { surface, index } of suspects) bySurface.set(surface, [...(bySurface.get(surface) ?? []), index]);
  return [
    `FOUND: ${what}`,
    ...[...bySurface].map(([surface, indexes]) => {
      const [first, last] = [Math.min(...indexes), Math.max(...indexes)];
      return `  --seed ${seed} --surface ${surface} --at ${first === last ? first : `${first}..${last}`}`;
    }),
    ...(suspects.length === 0 ? [] : [`  as hex in ${findsFolder(seed)}`]),
  ];
}
