import { readFileSync } from "node:fs";
import { messageOf } from "@diskmesh/domain";
import { parseDocument } from "yaml";
import { ConfigError } from "./config-error.js";

/** A config is a few hundred lines; another file, given by mistake, must not keep a start waiting. */
const MAX_CONFIG_LENGTH = 128 * 1024;

/** What a config file says. Throws ConfigError, which never quotes the file. */
export function readConfigFile(file: string): unknown {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new ConfigError(`cannot read the config file ${file}: ${messageOf(error)}`, { cause: error });
  }
  if (text.length > MAX_CONFIG_LENGTH)
    throw new ConfigError(
      `config ${file} has ${text.length} characters, more than the ${MAX_CONFIG_LENGTH} of any config`,
    );
  return parseYaml(text, `config ${file}`) ?? {};
}

/** Throws ConfigError, which never quotes the text: it may hold secrets. */
export function parseYaml(text: string, what: string): unknown {
  // Neither pretty errors nor warnings: both quote the text, and take time for each error.
  const document = parseDocument(text, { prettyErrors: false, logLevel: "error" });
  const [error] = document.errors;
  if (error) throw new ConfigError(`${what} is not valid YAML: ${error.message} ${placeIn(text, error.pos[0])}`);
  try {
    return document.toJS();
  } catch {
    // What was thrown quotes the alias, which may be a password that begins with a star.
    throw new ConfigError(`${what} has an alias that nothing is named by: put values that begin with * in quotes`);
  }
}

function placeIn(text: string, offset: number): string {
  const lines = text.slice(0, offset).split("\n");
  return `at line ${lines.length}, column ${(lines.at(-1)?.length ?? 0) + 1}`;
}
