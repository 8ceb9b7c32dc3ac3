import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";

export const repository = fileURLToPath(new URL("../../../../..", import.meta.url));
export const deploy = join(repository, "deploy");

interface Schema {
  parse(config: unknown): Config;
}

export interface Config {
  readonly listen: { readonly port: number };
  readonly advertisedAddress?: string;
}

/** Config schemas of the services. */
export const SCHEMAS: ReadonlyMap<string, Schema> = new Map(
  await Promise.all(
    [
      ["director", "directorConfig"],
      ["cpi-dispatcher", "dispatcherConfig"],
      ["disk-registry", "configSchema"],
      ["disk-agent", "configSchema"],
      ["csi-driver", "csiConfig"],
    ].map(async ([service = "", name = ""]) => {
      const module = await import(`@diskmesh/${service}/config`);
      return [service, module[name]] as const;
    }),
  ),
);

/** Parses a config with the service's own schema. */
export function parsedConfig(service: string, file: string): Config {
  const schema = SCHEMAS.get(service);
  if (schema === undefined) throw new Error(`there is no service ${service}`);
  return schema.parse(parse(readFileSync(file, "utf8")));
}

export function version(): string {
  return JSON.parse(readFileSync(join(repository, "package.json"), "utf8")).version;
}

/** Returns the names of a release's programs. */
export async function programs(): Promise<readonly string[]> {
  const { PROGRAMS } = await import(join(repository, "deploy/local/bootstrap/release.mjs"));
  return Object.keys(PROGRAMS);
}

/** Runs the operator's command. */
export function diskmesh(...args: string[]): void {
  execFileSync(process.execPath, [join(repository, "packages/cli/bin/diskmesh.mjs"), ...args]);
}
