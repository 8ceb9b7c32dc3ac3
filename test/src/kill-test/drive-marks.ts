import { decodeRecord, decodeTable, diskDigest, LABEL_BYTES, RECORD_BYTES } from "@diskmesh/disk-agent/simulation";

/**
 * Returns whether a byte of a drive is one of its label, its table of runs, or the record of a run: for a drive with a
 * label, whose table has runs of these disks alone. The record of a run is that of its disk.
 */
export function marksOn(
  read: (offsetBytes: number, lengthBytes: number) => Buffer,
  diskIds: Iterable<string>,
): (atBytes: number) => boolean {
  const area = read(0, LABEL_BYTES);
  const ids = new Map([...diskIds].map((diskId) => [diskDigest(diskId), diskId]));
  const { entries } = decodeTable(area);
  const isLabelled = area.toString("latin1", 0, LABEL_BYTES).startsWith("diskmesh-label");
  if (!isLabelled || !entries.every(({ disk }) => ids.has(disk))) return () => false;
  const recorded = entries.filter(
    ({ offsetBytes, disk }) => decodeRecord(read(offsetBytes, RECORD_BYTES))?.record.diskId === ids.get(disk),
  );
  const starts = [0, ...recorded.map(({ offsetBytes }) => offsetBytes)];
  return (atBytes) => {
    const isIn = (start: number) => atBytes >= start && atBytes < start + (start === 0 ? LABEL_BYTES : RECORD_BYTES);
    return starts.some(isIn);
  };
}
