import type { Surface } from "./surface.js";
import { AgentCacheSurface } from "./surfaces/agent-cache.js";
import { ConfigFilesSurface } from "./surfaces/config-files.js";
import { StoreFilesSurface } from "./surfaces/store-files.js";

/** Surfaces that need no mesh: parsers of files on a process's own disk. */
const PARSERS: Readonly<Record<string, (folder: string) => Surface>> = {
  "agent-cache": (folder) => new AgentCacheSurface(folder),
  "config-files": (folder) => new ConfigFilesSurface(folder),
  "store-files": (folder) => new StoreFilesSurface(folder),
};

export const PARSER_NAMES = Object.keys(PARSERS);

/** Returns the parser surface with that name; `folder` is for its files. */
export function parserOf(name: string, folder: string): Surface {
  const make = PARSERS[name];
  if (make === undefined) throw new Error(`there is no parser ${name}`);
  return make(folder);
}
