import { MemoryTables } from "../documents/memory-tables.js";
import { table } from "../documents/schema.js";

export interface Disk {
  readonly diskId: string;
  readonly hostId?: string | undefined;
  readonly pool: string;
  readonly size: number;
}

export const schema = {
  disks: table<Disk>()({
    key: (disk) => disk.diskId,
    indexes: { byHost: (disk) => disk.hostId, byPool: (disk) => disk.pool },
  }),
  notes: table<{ readonly name: string; readonly value?: unknown; readonly tags?: readonly string[] }>()({
    key: (note) => note.name,
    indexes: { byTag: (note) => note.tags },
  }),
};

export function disk(diskId: string, rest: Partial<Disk> = {}): Disk {
  return { diskId, pool: "default", size: 1, ...rest };
}

export function withDisks(...disks: Disk[]): MemoryTables<typeof schema> {
  const memory = new MemoryTables(schema);
  memory.transact((tx) => {
    for (const each of disks) tx.disks.put(each);
  });
  return memory;
}

export function ids(disks: Iterable<Disk>): string[] {
  return Array.from(disks, (each) => each.diskId);
}
