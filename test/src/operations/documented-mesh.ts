import { mkdirSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { temporaryFolder } from "@diskmesh/testkit";
import { isPrinted, type Step } from "./document.js";
import { Machine } from "./machine.js";

/** The machines of the document, and the addresses that it gives them. */
const ADDRESSES = {
  "control-1": "10.0.0.11",
  "control-2": "10.0.0.12",
  "control-3": "10.0.0.13",
  "host-1": "10.0.0.21",
  "host-2": "10.0.0.22",
  "host-3": "10.0.0.23",
  "host-4": "10.0.0.24",
} as const;
export type MachineName = keyof typeof ADDRESSES | "admin";
/** All but the one that is added later. */
const EVERYWHERE = "every machine";
const ADDED = "host-4";
const PORTS = [4222, 6222, 7010, 7020, 7030, 7040, 25555];
const ATTEMPTS = 50;

export interface DocumentedMeshOptions {
  /** Values of variables of the document, in place of its own. */
  readonly values: Readonly<Record<string, string>>;
  /** Called for each machine before anything is typed. */
  readonly prepare: (machine: Machine) => void;
}

/** The machines that a document speaks of, on the loopback interface of this one, and what is typed there. */
export class DocumentedMesh implements AsyncDisposable {
  readonly folder = temporaryFolder();
  readonly #machines = new Map<string, Machine>();
  readonly #addresses: ReadonlyMap<string, string>;

  private constructor(
    subnet: string,
    private readonly options: DocumentedMeshOptions,
  ) {
    this.#addresses = new Map(Object.values(ADDRESSES).map((given) => [given, `${subnet}.${given.split(".")[3]}`]));
    for (const name of ["admin", ...Object.keys(ADDRESSES)]) {
      const folder = join(this.folder, name);
      mkdirSync(folder);
      const machine = new Machine(name, folder, {}, (address) => this.#at(address));
      this.#machines.set(name, machine);
      options.prepare(machine);
    }
  }

  static async start(options: DocumentedMeshOptions): Promise<DocumentedMesh> {
    return new DocumentedMesh(await freeSubnet(), options);
  }

  machine(name: MachineName): Machine {
    const machine = this.#machines.get(name);
    if (machine === undefined) throw new Error(`no machine ${name}`);
    return machine;
  }

  get machines(): readonly Machine[] {
    return [...this.#machines.values()];
  }

  /** Where a machine of the document is here. */
  address(name: keyof typeof ADDRESSES): string {
    return this.#addresses.get(ADDRESSES[name]) as string;
  }

  /** Does what a step says, and throws where it prints something else than is said. */
  async follow({ line, parts, expected }: Step): Promise<void> {
    let printed = "";
    for (const { machines, script } of parts) {
      const all = [...this.#machines.keys()].filter((name) => name !== ADDED);
      const names = machines.join(" ") === EVERYWHERE ? all : machines;
      for (const name of names)
        printed += await this.machine(name as MachineName)
          .type(this.#here(script, this.machine(name as MachineName)))
          .catch((error: Error) => {
            throw new Error(`line ${line}: ${error.message}`);
          });
    }
    const wanted = expected === undefined ? undefined : this.#withAddresses(expected);
    if (wanted !== undefined && !isPrinted(wanted, printed))
      throw new Error(`line ${line}: the document says that this is printed:\n${wanted}\nand this was:\n${printed}`);
  }

  /** What is typed, with this test's values of the variables. */
  #here(script: string, machine: Machine): string {
    const values = (name: string, given: string): string => {
      const own = this.options.values[name];
      if (own !== undefined) return own.replaceAll("MACHINE", machine.folder);
      return /^\/(etc|var|opt|run)\//.test(given) || given === "/opt" ? join(machine.folder, given) : given;
    };
    const assigned = script.replace(
      /(?<=^(?:[A-Z_0-9]+=\S+ +)*)([A-Z_0-9]+)=('[^']*'|\S+)/gm,
      (_, name: string, given: string) => `${name}=${values(name, given)}`,
    );
    return this.#withAddresses(assigned);
  }

  #withAddresses(script: string): string {
    return script.replace(/\b10\.0\.0\.\d+\b/g, (given) => this.#addresses.get(given) ?? given);
  }

  #at(address: string): Machine {
    for (const [given, here] of this.#addresses)
      if (here === address)
        return this.machine(Object.entries(ADDRESSES).find(([, one]) => one === given)?.[0] as MachineName);
    throw new Error(`no machine has the address ${address}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.machines.map((machine) => machine[Symbol.asyncDispose]()));
  }
}

/** The beginning of addresses of the loopback interface on which nobody has any of the ports. Linux has all of 127.0.0.0/8. */
async function freeSubnet(): Promise<string> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const subnet = `127.${100 + Math.floor(Math.random() * 100)}.${Math.floor(Math.random() * 256)}`;
    const free = await Promise.all(
      Object.values(ADDRESSES).flatMap((given) =>
        PORTS.map((port) => isFree(`${subnet}.${given.split(".")[3]}`, port)),
      ),
    );
    if (!free.includes(false)) return subnet;
  }
  throw new Error(
    `the ports ${PORTS.join(", ")} are in use on all addresses of the loopback interface that were tried`,
  );
}

function isFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
