import type { Logger } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { MirrorLimits } from "../mirror/mirror.js";
import type { ExportDevice, ExportSpec } from "../model/memory.js";
import type { ListenNbd, NbdServerLimits } from "../nbd/server.js";
import type { OpenPart } from "../parts/open-part.js";
import type { Engine, ServedDisk } from "./engine.js";
import { socketPathIn } from "./export-path.js";
import { ExportedDisk } from "./exported-disk.js";

interface NodeEngineOptions {
  /** Folder of the sockets. */
  readonly folder: string;
  readonly openPart: OpenPart;
  readonly listenNbd: ListenNbd;
  readonly clock: Clock;
  readonly limits: NbdServerLimits & {
    readonly drainTimeoutMs: number;
    readonly mirror: MirrorLimits;
  };
  readonly log: Logger;
}

/** Carries the bytes of disks in the agent's own process, as an NBD server on a Unix socket. Needs no other program. */
export class NodeEngine implements Engine {
  readonly name = "node";
  readonly #options: NodeEngineOptions;

  constructor(options: NodeEngineOptions) {
    this.#options = options;
  }

  whyNot(): undefined {
    return undefined;
  }

  async serve(spec: ExportSpec): Promise<ServedDisk> {
    const { folder, openPart, limits, log, listenNbd, clock } = this.#options;
    const open = (device: ExportDevice) => openPart(device, spec);
    const disk = new ExportedDisk(spec, { open, limits: limits.mirror, clock, log });
    const { served } = disk;
    const path = socketPathIn(folder, spec.diskId);
    try {
      const server = await listenNbd({ socketPath: path, served, disk, limits, log });
      const end = async () => {
        disk.release();
        await server.close(limits.drainTimeoutMs);
        disk.close();
      };
      return {
        path,
        isFixedSize: false,
        change: async (later) => disk.change(later),
        queue: (nowMs) => disk.queue(nowMs),
        askMirror: (mirrored, bytesPerSecond) => disk.askMirror(mirrored, bytesPerSecond),
        sealMoves: () => disk.sealMoves(),
        end,
        leave: end,
        isReachable: () => server.hasSocket(),
        restore: () => server.restore(),
      };
    } catch (error) {
      disk.close();
      throw error;
    }
  }
}
