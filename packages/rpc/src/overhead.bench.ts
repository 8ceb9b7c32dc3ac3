import { fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { ChannelCredentials, Client as GrpcClient, Server, ServerCredentials } from "@grpc/grpc-js";
import { type MethodDefinition, methodsOf } from "./definition.js";
import { Bench, type Note, NoteService } from "./testing/note-bench.js";

/**
 * What the shells cost: no-op calls per second through RpcServer and createClient, as a ratio of bare grpc-js, both over
 * mutual TLS between the same two processes. Rounds are short, so that what else the machine does hits all alike.
 *
 * node packages/rpc/dist/overhead.bench.js
 */
const ROUNDS = 9;
const ROUND_MS = 1000;
const FLOOR = "bare client, bare server";
const CONCURRENCY = 64;
const NOTE: Note = { text: "note", count: 1 };

const bench = new Bench();
if (process.send) await serve();
else await measure();

/** The server process: a bare server and ours, told apart by port. */
async function serve(): Promise<void> {
  const folder = process.argv[2] as string;
  const files = bench.files("disk-registry", folder);
  const keys = { cert_chain: readFileSync(files.certFile), private_key: readFileSync(files.keyFile) };
  const bare = new Server();
  bare.addService(Object.fromEntries(methodsOf(NoteService)), {
    get: (call: { request: Note }, callback: (error: null, note: Note) => void) => callback(null, call.request),
  });
  const credentials = ServerCredentials.createSsl(readFileSync(files.caFile), [keys], true);
  const barePort = await new Promise<number>((resolve, reject) => {
    bare.bindAsync("127.0.0.1:0", credentials, (error, port) => (error ? reject(error) : resolve(port)));
  });
  const filesIn = bench.files.bind(bench);
  bench.files = (name) => filesIn(name, folder);
  process.on("exit", () => bench.remove());
  await bench.serve();
  process.send?.({ barePort, ourPort: bench.port });
  process.on("disconnect", () => process.exit(0));
}

async function measure(): Promise<void> {
  await bench.makeCertificates();
  const child = fork(fileURLToPath(import.meta.url), [bench.folder]);
  const ports = await new Promise<{ barePort: number; ourPort: number }>((resolve) => {
    child.once("message", (message) => resolve(message as { barePort: number; ourPort: number }));
  });
  bench.port = ports.ourPort;
  const ours = bench.client();
  const calls = {
    [FLOOR]: bareCalls(ports.barePort),
    "bare client, our server": bareCalls(ports.ourPort),
    "our client, our server": () => ours.get(NOTE),
  };
  const rounds: Record<string, number>[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const rates: Record<string, number> = {};
    // Another one goes first each time, and each is compared with the floor of its own round.
    const names = Object.keys(calls);
    for (const name of [...names.slice(round % names.length), ...names.slice(0, round % names.length)])
      rates[name] = await rateOf(calls[name as keyof typeof calls]);
    // The first round warms up.
    if (round > 0) rounds.push(rates);
  }
  for (const name of Object.keys(calls)) {
    const rate = median(rounds.map((rates) => rates[name] ?? 0));
    const ratio = median(rounds.map((rates) => (rates[name] ?? 0) / (rates[FLOOR] ?? 1)));
    console.log(`${name}: ${Math.round(rate)} calls/s, ${ratio.toFixed(3)} of bare`);
  }
  child.disconnect();
  ours.close();
  bench.remove();
  process.exit(0);
}

function bareCalls(port: number): () => Promise<unknown> {
  const files = bench.files("operator");
  const credentials = ChannelCredentials.createSsl(
    readFileSync(files.caFile),
    readFileSync(files.keyFile),
    readFileSync(files.certFile),
    { checkServerIdentity: () => undefined },
  );
  const client = new GrpcClient(`localhost:${port}`, credentials, {});
  const method = Object.fromEntries(methodsOf(NoteService)).get as MethodDefinition;
  const { path, requestSerialize, responseDeserialize } = method;
  return () =>
    new Promise((resolve, reject) => {
      client.makeUnaryRequest(path, requestSerialize, responseDeserialize, NOTE, (error, note) =>
        error ? reject(error) : resolve(note),
      );
    });
}

async function rateOf(call: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  let done = 0;
  await Promise.all(
    Array.from({ length: CONCURRENCY }, async () => {
      for (; performance.now() - startedMs < ROUND_MS; done++) await call();
    }),
  );
  return (done / (performance.now() - startedMs)) * 1000;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
