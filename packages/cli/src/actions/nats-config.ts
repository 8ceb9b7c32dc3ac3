import { mkdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import { quoted } from "@diskmesh/domain";
import { refuseOpenKey } from "../mesh/trusted-files.js";
import { UsageError } from "../output/exit-codes.js";
import { type Action, type ActionCall, textOption } from "./action.js";
import { folderOf, open } from "./pki.js";

/** File name in the folder of `diskmesh pki`. */
const SEED_FILE = "nats-issuer.seed";

export const natsConfig: Action = {
  usage: "nats-config <folder>",
  summary: "write nats-server's configuration of authentication by the director (auth callout) and of its cluster",
  options: [
    [
      "--folder <folder>",
      "folder of `diskmesh pki` (pki), in which the command creates `nats-issuer.seed` for directors",
    ],
    ["--agents-ca <file>", "authorities of agents in VMs: the director's agents.certificates.authority.certFile"],
    ["--installed-in <folder>", "path of the files on nats-server's machine, if copied there (the folder itself)"],
  ],
  example: "diskmesh nats-config /etc/nats/diskmesh --folder pki --agents-ca agents-ca.pem",
  run: async (call) => {
    const folder = targetOf(call);
    const files = await natsFiles(call, folder);
    await mkdir(folder, { recursive: true });
    const changed: string[] = [];
    for (const [name, text] of files) {
      const file = join(folder, name);
      if (text === (await readFile(file, "utf8").catch(() => undefined))) continue;
      await replaceFile(file, text, { mode: 0o644 });
      changed.push(file);
    }
    const what =
      changed.length === 0
        ? "no file has changed"
        : `wrote ${changed.join(" ")}; reload nats-server: nats-server --signal reload`;
    call.output.answer({ changed }, what);
  },
};

/**
 * Returns the target folder. It must not be the key folder, because users copy the whole target folder to NATS servers.
 */
function targetOf({ args: [given = ""], options }: ActionCall): string {
  const folder = resolve(given);
  if (folder === folderOf(options))
    throw new UsageError(`${quoted(folder)} contains all keys of the mesh: give a folder for nats-server alone`);
  return folder;
}

/** Returns the files that nats-server's configuration includes. */
export async function natsFiles(
  call: ActionCall,
  folder: string,
): Promise<readonly (readonly [name: string, text: string])[]> {
  const { authCalloutConfig, clusterTlsConfig, openCalloutIssuer } = await import("@diskmesh/mbus");
  const certificates = await open(call, false);
  const seedFile = join(folderOf(call.options), SEED_FILE);
  refuseOpenKey(seedFile);
  const issuer = await openCalloutIssuer(seedFile, { makes: true });
  const agentsCa = textOption(call.options, "agentsCa");
  const authorities = [...certificates.authorityPems, ...(agentsCa === "" ? [] : [await readFile(agentsCa, "utf8")])];
  const installedIn = resolve(textOption(call.options, "installedIn") || folder);
  const servers = await certificates.natsServers(Date.now());
  const pins = servers.flatMap((server) => server.pins);
  return [
    ["ca.pem", authorities.map((pem) => `${pem.trimEnd()}\n`).join("")],
    ["auth-callout.conf", authCalloutConfig(issuer.getPublicKey())],
    ["cluster-tls.conf", clusterTlsConfig(join(installedIn, "ca.pem"), pins)],
  ];
}
