import { fileURLToPath } from "node:url";
import type { Instance } from "@diskmesh/api/director";
import { DomainError, InvalidStateError } from "@diskmesh/domain";
import { commandsToCopy } from "./commands.js";
import { boshLogin } from "./mesh/bosh-login.js";
import { operatorClients } from "./mesh/clients.js";
import { startCsiDrivers } from "./mesh/csi-drivers.js";
import { MeshLayout } from "./mesh/layout.js";
import { LocalMesh } from "./mesh/local-mesh.js";
import { type LocalOptions, parseOptions, USAGE } from "./options.js";
import { waitFor } from "./story/scene.js";
import { isStoryTold, presentInstances, type Tell, tellStory } from "./story/story.js";
import { tellOfVolume } from "./story/volume.js";
import { Terminal } from "./terminal.js";

const repositoryFolder = fileURLToPath(new URL("../../..", import.meta.url));

async function run(options: LocalOptions, terminal: Terminal, signal: AbortSignal): Promise<void> {
  const layout = new MeshLayout(options.stateFolder, options.basePort, options.engine);
  const report = (line: string) => terminal.note(line);
  await using local = await LocalMesh.start({ layout, fresh: options.fresh, report, signal });
  terminal.done(`mesh started: ${local.mesh.processCount} processes, state in ${layout.stateFolder}`);
  const clients = operatorClients(layout);
  let instance: Instance | undefined;
  try {
    const scene = { layout, clients, signal, restarts: () => local.mesh.restarts };
    const tell: Tell = (title, step, describe) => terminal.step(title, step, describe);
    const isTold = isStoryTold(layout);
    if (isTold) terminal.note("the story was told before, and what you have changed stays; --fresh tells it again");
    const instances = isTold
      ? await waitFor(scene, "the instances", () => presentInstances(scene))
      : await tellStory(scene, tell);
    const [one, two] = instances;
    instance = one;
    if (options.csi) {
      if (one === undefined || two === undefined)
        throw new InvalidStateError(
          "--csi needs the two instances of deployment demo: tell the story again by --fresh",
        );
      using drivers = await startCsiDrivers(local.mesh, layout, [one, two], signal);
      await tellOfVolume(scene, tell, drivers);
    }
  } finally {
    clients.close();
  }
  if (options.once) return;
  const { password } = await boshLogin(layout);
  terminal.line(commandsToCopy(layout, instance?.instanceId ?? "INSTANCE", password));
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  terminal.note("stopping");
}

const PARENT_POLL_MS = 1000;
/** Exit code of a program that Ctrl-C ended, as shells report it. */
const INTERRUPTED = 130;

/** Returns a signal that aborts on the first Ctrl-C or SIGTERM. Each further one is taken for the same: npm forwards them. */
function stopOnSignals(): AbortSignal {
  const stopping = new AbortController();
  // When npm itself is killed, only watching its process id stops this process.
  const npm = process.env.npm_lifecycle_event === undefined ? undefined : process.ppid;
  if (npm !== undefined)
    setInterval(() => {
      if (process.ppid !== npm) stopping.abort(new Error("npm has ended"));
    }, PARENT_POLL_MS).unref();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(name, () => stopping.abort(new Error(`stopped by ${name}`)));
  return stopping.signal;
}

async function main(): Promise<number> {
  const options = parseOptions(process.argv.slice(2), process.env, repositoryFolder);
  if (options.help) {
    process.stdout.write(`${USAGE}\n`);
    return 0;
  }
  const signal = stopOnSignals();
  try {
    await run(options, new Terminal(), signal);
    return 0;
  } catch (error) {
    // A stop during the story is a failure only with --once.
    if (signal.aborted) return options.once ? INTERRUPTED : 0;
    throw error;
  }
}

try {
  process.exitCode = await main();
} catch (error) {
  const text =
    error instanceof DomainError || !(error instanceof Error) ? String((error as Error).message ?? error) : error.stack;
  process.stderr.write(`diskmesh: ${text}\n`);
  process.exitCode = 1;
}
