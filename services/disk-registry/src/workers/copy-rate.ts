import type { Config } from "../config/config.js";

/** Returns the maximum rate of a copy, in bytes per second: one of the shares of a host's rate; 0 for unlimited. */
export function copyBytesPerSecond({ moves }: Pick<Config, "moves">, shares: number): number {
  return Math.ceil(moves.bytesPerSecondOfHost / shares);
}
