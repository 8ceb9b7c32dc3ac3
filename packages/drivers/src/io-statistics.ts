/** Kernel counters of a drive, counted since the drive appeared. */
interface IoStatistics {
  readonly reads: number;
  readonly readBytes: number;
  readonly readMs: number;
  readonly writes: number;
  readonly writtenBytes: number;
  readonly writeMs: number;
  readonly inFlight: number;
}

const SECTOR_BYTES = 512;

/** Parses a drive's `stat` file in sysfs; returns undefined for other texts. */
export function parseIoStatistics(text: string): IoStatistics | undefined {
  const numbers = text.trim().split(/\s+/).map(Number);
  const [reads, , readSectors, readMs, writes, , writtenSectors, writeMs, inFlight] = numbers;
  if (inFlight === undefined || numbers.some(Number.isNaN)) return undefined;
  return {
    reads: reads as number,
    readBytes: (readSectors as number) * SECTOR_BYTES,
    readMs: readMs as number,
    writes: writes as number,
    writtenBytes: (writtenSectors as number) * SECTOR_BYTES,
    writeMs: writeMs as number,
    inFlight,
  };
}
