import { readdirSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { messageOf, quoted } from "@diskmesh/domain";
import { UsageError } from "../output/exit-codes.js";
import { refuseChangeable } from "./trusted-files.js";

type Environment = Readonly<Record<string, string | undefined>>;

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
const SUFFIX = ".env";

/** Returns the folder of the contexts: files NAME.env with lines VARIABLE=VALUE, as systemd and Docker read them. */
export function contextsFolder({ XDG_CONFIG_HOME, HOME }: Environment): string {
  return join(XDG_CONFIG_HOME || join(HOME || homedir(), ".config"), "diskmesh");
}

/** Returns the names of all contexts, sorted. */
export function contextNames(environment: Environment): string[] {
  try {
    const files = readdirSync(contextsFolder(environment)).filter((file) => file.endsWith(SUFFIX));
    return files.map((file) => file.slice(0, -SUFFIX.length)).sort();
  } catch {
    return [];
  }
}

/**
 * Returns the environment in which the variables of a context replace all variables of diskmesh, so that no command
 * reaches two meshes. Without a context, returns the environment as it is.
 */
export function inContext(given: string, environment: Environment): Environment {
  const name = given || environment.DISKMESH_CONTEXT || "";
  if (name === "") return environment;
  const others = Object.entries(environment).filter(([variable]) => !variable.startsWith("DISKMESH_"));
  return Object.fromEntries([...others, ...Object.entries(readContext(name, environment)), ["DISKMESH_CONTEXT", name]]);
}

/** Returns the variables of a context. */
export function readContext(name: string, environment: Environment): Readonly<Record<string, string>> {
  if (!NAME.test(name)) throw new UsageError(`context ${quoted(name)} is not a file name`);
  const file = join(contextsFolder(environment), `${name}${SUFFIX}`);
  refuseChangeable(file);
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    const names = contextNames(environment);
    const known = names.length === 0 ? "there is none" : `there are ${names.join(", ")}`;
    throw new UsageError(`cannot read the context ${quoted(name)}: ${messageOf(error)}; ${known}`);
  }
  const lines = text.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#"));
  return Object.fromEntries(
    lines.map((line) => {
      const [, variable, value = ""] = /^(DISKMESH_[A-Z_]+)=(.*)$/.exec(line) ?? [];
      if (variable === undefined) throw new UsageError(`${file}: ${quoted(line)} is not DISKMESH_NAME=VALUE`);
      return [variable, value];
    }),
  );
}
