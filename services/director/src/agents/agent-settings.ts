import { readFile } from "node:fs/promises";
import { formatHostPort, hostPortOf } from "@diskmesh/domain";
import type { DirectorConfig } from "../config/config.js";
import type { AgentSettings } from "../specs/agent-settings.js";

/** For this path stock agents take a folder of their own, wherever they keep theirs. */
const OWN_FOLDER = "/var/vcap/micro_bosh/data/cache";

/**
 * What agents are told in the env of create_vm: what the config says, and by which authorities they know the director's
 * HTTPS face, where they put their logs. Stock agents look for those in the settings of their blobstore, and nowhere else.
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
