import { readFile } from "node:fs/promises";
import { formatHostPort, hostPortOf } from "@diskmesh/domain";
import type { DirectorConfig } from "../config/config.js";
import type { AgentSettings } from "../specs/agent-settings.js";

/** Stock agents replace this path by a folder of their own. */
const OWN_FOLDER = "/var/vcap/micro_bosh/data/cache";

/**
 * Returns the settings that agents get in the env of create_vm: those of the config, and the authorities of the
 * director's HTTPS API, where agents upload their logs. Stock agents look for these in the settings of their blobstore,
 * and nowhere else.
 */
export async function agentSettingsOf({ agents, http, tls }: DirectorConfig): Promise<AgentSettings> {
  const { settings, logs } = agents;
  if (http === undefined || settings.blobstores !== undefined) return settings as AgentSettings;
  const ca = await readFile(logs.caFile ?? http.tls?.caFile ?? tls.caFile, "utf8");
  const options = { blobstore_path: OWN_FOLDER, tls: { cert: { ca } } };
  return { ...(settings as AgentSettings), blobstores: [{ provider: "local", options }] };
}

/** Where agents reach the HTTPS face of the director at that address; undefined where they cannot. */
export function logsUrlOf({ agents, http }: DirectorConfig, address: string): string | undefined {
  if (agents.logs.url !== undefined) return agents.logs.url.replace(/\/+$/, "");
  const host = hostPortOf(address)?.host;
  if (http === undefined || http.listen.port === 0 || host === undefined) return undefined;
  return `https://${formatHostPort({ host, port: http.listen.port })}`;
}
