/** Creates the machines of docs/operate in their own networks, and executes requests there: see cut-off.ts. */
import { answerQuestions } from "../namespaces/asked-program.js";
import { Network } from "../namespaces/network.js";
import { AwayScene } from "./away-scene.js";
import { CUT_OFF } from "./cut-off.js";
import { MACHINES } from "./documented-mesh.js";
import { type NewMachines, newMachines } from "./new-machines.js";
import { followSection } from "./sections.js";
import { ADDRESSES, namespacesSite } from "./site.js";

const ADMIN_NUMBER = 10;
const DATABASE_NUMBER = 30;

const numbers = new Map<string, number>([["database", DATABASE_NUMBER]]);
for (const name of MACHINES)
  numbers.set(name, name === "admin" ? ADMIN_NUMBER : Number(ADDRESSES[name].split(".").at(-1)));
const network = new Network("10.0.0", numbers);
const machines = newMachines(namespacesSite(network), {
  host: network.host("database"),
  launcher: network.launcher("database"),
});
let scene: AwayScene | undefined;

answerQuestions(async (asked) => {
  const made = await machines;
  if (typeof made === "string") throw new Error(made);
  try {
    await follow(asked, made);
  } catch (error) {
    const said = made.mesh.machines.map(({ lastWords }) => lastWords).join("\n");
    throw new Error(`${(error as Error).stack}\n${said}`, { cause: error });
  }
});

/** Executes a section of the document, or an entry of `CUT_OFF`. */
async function follow(asked: string, { mesh, database }: NewMachines): Promise<void> {
  const proof = CUT_OFF[asked];
  if (proof === undefined) return followSection(mesh, asked);
  if (scene === undefined) {
    scene = new AwayScene(mesh, database);
    await scene.begin();
  }
  await proof({ scene, mesh, network });
}
