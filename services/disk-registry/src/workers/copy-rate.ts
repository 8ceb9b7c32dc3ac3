import type { Config } from "../config/config.js";
import { COPIES_OF_HOST } from "../model/disks/move-target.js";

/** Returns the maximum rate of one copy: the share of a host's rate; 0 for unlimited. */
export function copyBytesPerSecond({ moves }: Pick<Config, "moves">): number {
  return Math.ceil(moves.bytesPerSecondOfHost / COPIES_OF_HOST);
}
