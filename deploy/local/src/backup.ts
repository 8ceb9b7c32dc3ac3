/** `npm run backup`: asks a service for a backup and keeps it as a file. */
import { once } from "node:events";
import { createWriteStream, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { AdminServiceDefinition } from "@diskmesh/api/common";
import { InvalidArgumentError, messageOf } from "@diskmesh/domain";
import { createClient } from "@diskmesh/rpc";
import { checkBackup } from "@diskmesh/tablet";

const REPOSITORY = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const SERVICES = { registry: "disk-registry", director: "director" } as const;
const CONNECT_DEADLINE_MS = 30_000;

const USAGE = `npm run backup -- --service registry|director --to FILE [options]
  --address HOST:PORT   of the service that leads; by default that of the mesh in --state
  --ca, --cert, --key   PEM files of an operator; by default those of the mesh in --state
  --state FOLDER        of \`npm start\` (default .diskmesh in the repository)`;

interface Arguments {
  readonly service: keyof typeof SERVICES;
  readonly to: string;
  readonly address: string;
  readonly tls: { readonly caFile: string; readonly certFile: string; readonly keyFile: string };
}

try {
  const { service, to, address, tls } = argumentsOf(process.argv.slice(2));
  const serverRole = SERVICES[service];
  const client = createClient(AdminServiceDefinition, {
    address,
    tls,
    serverRole,
    defaultDeadlineMs: CONNECT_DEADLINE_MS,
  });
  const draft = `${to}.part`;
  try {
    await write(draft, client.createBackup({}));
    const { header, documents } = await checkBackup(draft);
    renameSync(draft, to);
    const { tabletName, tabletId, generation } = header;
    process.stdout.write(
      `${to}: ${documents} documents of tablet ${tabletName}, ${tabletId}, generation ${generation}\n`,
    );
  } finally {
    rmSync(draft, { force: true });
    client.close();
  }
} catch (error) {
  process.stderr.write(`cannot back up: ${messageOf(error)}\n`);
  process.exitCode = 1;
}

/** Synced to disk when it resolves. For its owner only: a director's state holds credentials. */
async function write(path: string, responses: AsyncIterable<{ readonly piece: Buffer }>): Promise<void> {
  const file = createWriteStream(path, { mode: 0o600, flush: true });
  try {
    for await (const { piece } of responses) if (!file.write(piece)) await once(file, "drain");
  } finally {
    file.end();
    await once(file, "close");
  }
}

function argumentsOf(args: readonly string[]): Arguments {
  try {
    const string = { type: "string" } as const;
    const options = {
      service: string,
      to: string,
      address: string,
      ca: string,
      cert: string,
      key: string,
      state: string,
    };
    const { values } = parseArgs({ args: [...args], options });
    const { service, to } = values;
    if (service !== "registry" && service !== "director") throw new Error("--service must be registry or director");
    if (!to) throw new Error("--to is needed");
    const state = resolve(values.state ?? process.env.DISKMESH_STATE ?? join(REPOSITORY, ".diskmesh"));
    const tls = {
      caFile: values.ca ?? join(state, "certs/ca.pem"),
      certFile: values.cert ?? join(state, "certs/operator.pem"),
      keyFile: values.key ?? join(state, "certs/operator-key.pem"),
    };
    return { service, to: resolve(to), address: values.address ?? addressIn(state, SERVICES[service]), tls };
  } catch (error) {
    throw new InvalidArgumentError(`${messageOf(error)}\n${USAGE}`, { cause: error });
  }
}

function addressIn(state: string, service: string): string {
  const endpoints = JSON.parse(readFileSync(join(state, "endpoints.json"), "utf8"));
  return endpoints[service].grpc;
}
