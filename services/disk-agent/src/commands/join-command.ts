import { existsSync } from "node:fs";
import { hostname } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";
import { replaceFile } from "@diskmesh/atomic-file";
import { formatHostPort, InvalidStateError, messageOf, parseHostId, parseHostPort, parseName } from "@diskmesh/domain";
import { ConfigError } from "@diskmesh/service";
import { parseGlob } from "../base/glob.js";
import { type Joined, joinHost, textOf } from "../joins/join.js";

const DEFAULT_FOLDER = "/var/lib/diskmesh-disk-agent";
const DEFAULT_AZ = "z1";
const DEFAULT_PORT = 7040;

const OPTIONS = {
  "host-id": { type: "string" },
  az: { type: "string" },
  listen: { type: "string" },
  drives: { type: "string" },
  folder: { type: "string" },
} as const;

export const JOIN_HELP = `ADDRESS[,ADDRESS...] TOKEN [OPTION...]
                       gets a certificate by a token of \`diskmesh join-token create\`, writes it with a config, and exits;
                       TOKEN is the token, a file that has it, or - for standard input, which keep it off the command line
    --host-id ID       id of this host (its name, up to the first dot)
    --az NAME          availability zone of this host (${DEFAULT_AZ})
    --listen ADDRESS   address and port of the agent (the address from which it reaches the registry, port ${DEFAULT_PORT})
    --drives GLOB      files that are the host's drives, which are erased, e.g. '/dev/disk/by-id/nvme-*' (none)
    --folder FOLDER    folder of the config, the certificate and the agent's state (${DEFAULT_FOLDER})
`;

/** Joins this host: writes key, certificate and config to a folder. Returns a text that says what to start next. */
export async function runJoin(argv: readonly string[]): Promise<string> {
  const { addresses, token, hostId, az, listen, drives, folder } = argumentsOf(argv);
  const file = join(folder, "disk-agent.yaml");
  if (existsSync(file))
    throw new InvalidStateError(`${file} exists: this host has joined; start its agent, or give another --folder`);
  const inFolder = (name: string): string => join(folder, name);
  const tls = { caFile: inFolder("tls/ca.pem"), certFile: inFolder("tls/cert.pem"), keyFile: inFolder("tls/key.pem") };
  const joined = await joinHost({ hostId, tls, token: await tokenOf(token), addresses });
  await replaceFile(file, configText({ hostId, az, drives, listen: listen ?? ownListen(joined), addresses, joined }));
  return [
    `host ${hostId} has joined at ${joined.address}; its config is ${file}`,
    ...(drives === undefined ? ["it has no drives yet: name them in the config, under discovery or devices"] : []),
    `start its agent: diskmesh-disk-agent --config ${file}`,
    "",
  ].join("\n");
}

const ownListen = ({ ownAddress: host }: Joined) => ({ host, port: DEFAULT_PORT });

/** Returns the config of a joined host. A text in JSON is one in YAML. */
function configText(of: {
  readonly hostId: string;
  readonly az: string;
  readonly listen: { readonly host: string; readonly port: number };
  readonly drives: string | undefined;
  readonly addresses: readonly string[];
  readonly joined: Joined;
}): string {
  const port = of.joined.registryPort;
  const registries = of.addresses.map((each) => formatHostPort({ host: parseHostPort("ADDRESS", each).host, port }));
  const { host, port: ownPort } = of.listen;
  return `# Made by \`diskmesh-disk-agent join\`. docs/reference/configuration.md has all other keys.
hostId: ${JSON.stringify(of.hostId)}
az: ${JSON.stringify(of.az)}
listen: { host: ${JSON.stringify(host)}, port: ${ownPort} }
tls: { caFile: tls/ca.pem, certFile: tls/cert.pem, keyFile: tls/key.pem }
registry: { address: ${JSON.stringify(registries)} }
baseFolder: base
${of.drives === undefined ? "" : `discovery: { rules: [{ glob: ${JSON.stringify(of.drives)} }] }\n`}`;
}

/** Parses the command line, so that a wrong one uses no token. */
function argumentsOf(argv: readonly string[]) {
  try {
    const { values, positionals } = parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: true });
    const [address = "", token = "", ...rest] = positionals;
    if (token === "" || rest.length > 0) throw new ConfigError("give an address and a token");
    const addresses = address.split(",");
    for (const each of addresses) parseHostPort("ADDRESS", each);
    return {
      addresses,
      token,
      hostId: parseHostId(values["host-id"] ?? hostname().replace(/\..*/s, ""), "--host-id"),
      az: parseName("--az", values.az ?? DEFAULT_AZ),
      listen: values.listen === undefined ? undefined : parseHostPort("--listen", values.listen),
      drives: values.drives === undefined ? undefined : parseGlob(values.drives),
      folder: resolve(values.folder ?? DEFAULT_FOLDER),
    };
  } catch (error) {
    throw new ConfigError(`${messageOf(error)}; usage: diskmesh-disk-agent join ${JOIN_HELP}`, { cause: error });
  }
}

async function tokenOf(given: string): Promise<string> {
  if (given === "-") return text(process.stdin);
  return given.startsWith("dmj1.") ? given : textOf(given, "the join token");
}
