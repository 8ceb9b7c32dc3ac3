import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { InvalidArgumentError, quoted } from "@diskmesh/domain";
import { PORT_SPAN } from "./mesh/layout.js";

export interface LocalOptions {
  /** True exits after the story instead of serving on. */
  readonly once: boolean;
  /** True deletes the state folder before the start. */
  readonly fresh: boolean;
  /** True adds an act of CSI drivers to the story. */
  readonly csi: boolean;
  readonly help: boolean;
  readonly stateFolder: string;
  readonly basePort: number;
  /** Engine of the agents. */
  readonly engine: string;
}

const DEFAULT_BASE_PORT = 7000;
const MAX_BASE_PORT = 65_535 - PORT_SPAN;

const ENGINES = ["auto", "kernel", "node"];

export const USAGE = `npm start -- [options]
  --once            tell the story, then stop; exit code 0 only when every step went well
  --fresh           delete the state folder first
  --csi             at the end of the story, provide and mount a volume by CSI calls
  --base-port N     ports from N on (default ${DEFAULT_BASE_PORT}: the director gets N+10; also DISKMESH_BASE_PORT)
  --engine NAME     engine of the agents: ${ENGINES.join(", ")} (default auto; also DISKMESH_ENGINE)
  --state FOLDER    keep the state there (default .diskmesh in the repository; also DISKMESH_STATE)
The services are those of this repository, or of the unpacked release that DISKMESH_RELEASE names.`;

/** Parses the command line. Environment variables supply options that are not given. */
export function parseOptions(args: readonly string[], env: NodeJS.ProcessEnv, repositoryFolder: string): LocalOptions {
  const values = parse(args);
  return {
    once: values.once ?? false,
    fresh: values.fresh ?? false,
    csi: values.csi ?? false,
    help: values.help ?? false,
    stateFolder: resolve(values.state || env.DISKMESH_STATE || join(repositoryFolder, ".diskmesh")),
    basePort: parseBasePort(values["base-port"] ?? (env.DISKMESH_BASE_PORT || String(DEFAULT_BASE_PORT))),
    engine: parseEngine(values.engine ?? (env.DISKMESH_ENGINE || "auto")),
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        once: { type: "boolean" },
        fresh: { type: "boolean" },
        csi: { type: "boolean" },
        help: { type: "boolean", short: "h" },
        state: { type: "string" },
        "base-port": { type: "string" },
        engine: { type: "string" },
      },
    }).values;
  } catch (error) {
    throw new InvalidArgumentError(`${(error as Error).message}\n${USAGE}`);
  }
}

function parseEngine(name: string): string {
  if (ENGINES.includes(name)) return name;
  throw new InvalidArgumentError(`the engine is ${quoted(name)}: it must be one of ${ENGINES.join(", ")}`);
}

function parseBasePort(text: string): number {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port < 1024 || port > MAX_BASE_PORT)
    throw new InvalidArgumentError(
      `the base port is ${quoted(text)}: it must be a number from 1024 to ${MAX_BASE_PORT}`,
    );
  return port;
}
