import { chmod, mkdir, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { dirname } from "node:path";
import { InvalidArgumentError, type Logger, messageOf } from "@diskmesh/domain";
import type { DockerVolumes } from "./volumes.js";

const MAX_BODY_BYTES = 64 * 1024;

/** Fields of all requests of Docker's volume plugin protocol 1.12. */
interface PluginRequest {
  readonly Name?: string;
  readonly ID?: string;
  readonly Opts?: Readonly<Record<string, string>> | null;
}

type Call = (request: PluginRequest) => Promise<object>;

/** The calls by path. `global` tells Docker that every host has the same volumes. */
const callsOf = (volumes: DockerVolumes): Readonly<Record<string, Call>> => ({
  "/Plugin.Activate": async () => ({ Implements: ["VolumeDriver"] }),
  "/VolumeDriver.Capabilities": async () => ({ Capabilities: { Scope: "global" } }),
  "/VolumeDriver.Create": async (request) => done(volumes.create(nameIn(request), request.Opts ?? {})),
  "/VolumeDriver.Remove": async (request) => done(volumes.remove(nameIn(request))),
  "/VolumeDriver.Mount": async (request) => ({ Mountpoint: await volumes.mount(nameIn(request), request.ID ?? "") }),
  "/VolumeDriver.Unmount": async (request) => done(volumes.unmount(nameIn(request), request.ID ?? "")),
  "/VolumeDriver.Path": async (request) => ({ Mountpoint: (await volumes.get(nameIn(request))).Mountpoint }),
  "/VolumeDriver.Get": async (request) => ({ Volume: await volumes.get(nameIn(request)) }),
  "/VolumeDriver.List": async () => ({ Volumes: await volumes.list() }),
});

async function done(work: Promise<void>): Promise<object> {
  await work;
  return {};
}

function nameIn({ Name }: PluginRequest): string {
  if (typeof Name === "string" && Name !== "") return Name;
  throw new InvalidArgumentError("the request has no Name of a volume");
}

/** Serves Docker's volume plugin protocol on a Unix socket, until the returned function is called. */
export async function servePlugin(
  socketPath: string,
  volumes: DockerVolumes,
  log: Logger,
): Promise<() => Promise<void>> {
  const calls = callsOf(volumes);
  const server = createServer((request, response) => {
    void answer(calls, request, log).then(({ code, body }) => send(response, code, body));
  });
  await mkdir(dirname(socketPath), { recursive: true });
  await rm(socketPath, { force: true });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(socketPath, resolve));
  // A program that can open the socket can mount volumes.
  await chmod(socketPath, 0o600);
  return async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeIdleConnections();
    await closed;
  };
}

async function answer(calls: Readonly<Record<string, Call>>, request: IncomingMessage, log: Logger) {
  const path = request.url ?? "";
  const call = Object.hasOwn(calls, path) ? calls[path] : undefined;
  if (call === undefined) return { code: 404, body: { Err: "there is no such call" } };
  try {
    return { code: 200, body: { ...(await call(await bodyOf(request))), Err: "" } };
  } catch (error) {
    log.info({ path, error: messageOf(error) }, "Docker call failed");
    return { code: 500, body: { Err: messageOf(error) } };
  }
}

async function bodyOf(request: IncomingMessage): Promise<PluginRequest> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes > MAX_BODY_BYTES) throw new InvalidArgumentError(`the request has more than ${MAX_BODY_BYTES} bytes`);
    chunks.push(chunk);
  }
  const text = Buffer.concat(chunks).toString("utf8");
  // Calls without arguments have no body.
  if (text === "") return {};
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body === "object" && body !== null) return body;
  } catch {
    // Named below.
  }
  throw new InvalidArgumentError("the request is not a JSON object");
}

function send(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { "content-type": "application/vnd.docker.plugins.v1.2+json" }).end(JSON.stringify(body));
}
