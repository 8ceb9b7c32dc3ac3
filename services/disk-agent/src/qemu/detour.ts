import { join } from "node:path";
import type { Logger } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import { ExportedDisk } from "../exports/exported-disk.js";
import type { Mirrored, MirrorLimits, MirrorStatus } from "../exports/mirror.js";
import type { OpenPart } from "../exports/open-part.js";
import { daemonFiles } from "../model/daemon-arguments.js";
import type { ExportDevice, ExportSpec } from "../model/memory.js";
import { NbdServer, type NbdServerLimits } from "../nbd/server.js";

export interface DetourOptions {
  /** Folder of the daemons' files. */
  readonly folder: string;
  readonly openPart: OpenPart;
  readonly limits: NbdServerLimits & { readonly mirror: MirrorLimits };
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Way of a disk's bytes from its storage daemon through the agent, which mirrors them. The daemon keeps the limits, and
 * sends what has no answer again when the agent has restarted.
 */
export class Detour {
  readonly #disk: ExportedDisk;
  readonly #server: NbdServer;

  private constructor(disk: ExportedDisk, server: NbdServer) {
    this.#disk = disk;
    this.#server = server;
  }

  /** Serves the disk to its daemon. */
  static async open(spec: ExportSpec, { folder, openPart, limits, clock, log }: DetourOptions): Promise<Detour> {
    const open = (device: ExportDevice) => openPart(device, spec);
    const disk = new ExportedDisk(withoutAccess(spec), { open, limits: limits.mirror, clock, log });
    const socketPath = join(folder, daemonFiles(spec.sessionNumber).detourSocket);
    try {
      return new Detour(disk, await NbdServer.listen({ socketPath, served: disk.served, disk, limits, log }));
    } catch (error) {
      disk.close();
      throw error;
    }
  }

  change(spec: ExportSpec): void {
    this.#disk.change(withoutAccess(spec));
  }

  askMirror(mirrored: Mirrored, bytesPerSecond: number): MirrorStatus | undefined {
    return this.#disk.askMirror(mirrored, bytesPerSecond);
  }

  /** Ends without an answer to the daemon's requests, so that it sends them again to the agent's next life. */
  async close(): Promise<void> {
    await this.#server.close(0);
    this.#disk.close();
  }
}

/** The daemon keeps the limits, and refuses writes itself. */
function withoutAccess({ limits: _, readOnly: __, ...spec }: ExportSpec): ExportSpec {
  return spec;
}
