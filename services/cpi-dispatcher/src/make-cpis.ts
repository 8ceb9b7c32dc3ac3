import { join } from "node:path";
import type { CpiConfig as CpiConfigMessage } from "@diskmesh/api/cpi";
import { InvalidArgumentError, quoted } from "@diskmesh/domain";
import type { DispatcherConfig } from "./config.js";
import { CpiSet, OfferedCpi } from "./cpi-set.js";
import { CallLimit } from "./executables/call-limit.js";
import { ExecutableCpi } from "./executables/executable-cpi.js";
import type { RunFolder } from "./executables/run-folder.js";
import { FleetCpi } from "./fleet/fleet-cpi.js";
import type { RegistryClients } from "./fleet/registry-client.js";
import { checkCpiNames } from "./model/choice.js";
import type { JsonObject } from "./model/json.js";

/** One CPI as a config describes it: the dispatcher's own, or a director's. */
export interface CpiDescription {
  readonly name: string;
  readonly type: string;
  /** Empty for where BOSH keeps the executables of that type. */
  readonly execPath: string;
  readonly migratedFrom: readonly string[];
  readonly properties: JsonObject;
}

const FLEET = "fleet";
const TYPE_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
const ADDRESS_PATTERN = /^[A-Za-z0-9.:[\]-]{1,255}:\d{1,5}$/;

/** Makes CPIs of descriptions. */
export class CpiMaker {
  readonly #limits = new Map<string, CallLimit>();

  constructor(
    private readonly config: Pick<DispatcherConfig, "executables" | "registry" | "maxCpis">,
    private readonly registries: RegistryClients,
    private readonly runFolder: RunFolder,
  ) {}

  /** The CPIs of a director's cpi-config, all of them or none. */
  makeSet(directorId: string, cpis: readonly CpiConfigMessage[], own: CpiSet): CpiSet {
    checkCpiNames(cpis, this.config.maxCpis);
    const descriptions = cpis.map((cpi) => checked({ ...cpi, properties: cpi.properties ?? {} }));
    return new CpiSet(
      descriptions.map((description) => this.make(description, directorId)),
      own.defaultCpi,
      true,
    );
  }

  make(description: CpiDescription, directorId = ""): OfferedCpi {
    const { name, type, migratedFrom } = description;
    const cpi = type === FLEET ? this.#fleet(description) : this.#executable(description, directorId);
    return new OfferedCpi(name, type, cpi, migratedFrom);
  }

  #fleet({ name, properties }: CpiDescription): FleetCpi {
    const { registry_address: address = this.config.registry.address } = properties;
    if (typeof address !== "string" || !ADDRESS_PATTERN.test(address))
      throw new InvalidArgumentError(`properties.registry_address of CPI ${name} is malformed: give "host:port"`);
    return new FleetCpi(this.registries.at(address));
  }

  #executable(description: CpiDescription, directorId: string): ExecutableCpi {
    const { name, type, properties } = description;
    const { jobsFolder, assumeV1WhenInfoFails, maxConcurrentCalls, maxWaitingCalls, ...limits } =
      this.config.executables;
    // The limit outlives the version of the config: processes of the last one still run.
    const key = JSON.stringify([directorId, name]);
    const callLimit = this.#limits.get(key) ?? new CallLimit(name, { maxConcurrentCalls, maxWaitingCalls });
    this.#limits.set(key, callLimit);
    return new ExecutableCpi({
      name,
      execPath: description.execPath === "" ? join(jobsFolder, `${type}_cpi`, "bin", "cpi") : description.execPath,
      properties,
      limits,
      runFolder: this.runFolder,
      callLimit,
      assumeV1WhenInfoFails,
    });
  }
}

/** Narrows what becomes a path or is run. */
export function checked(description: CpiDescription): CpiDescription {
  const { name, type, execPath } = description;
  if (!TYPE_PATTERN.test(type))
    throw new InvalidArgumentError(
      `the type ${quoted(type)} of CPI ${name} is malformed: give letters, digits, '-', '_'`,
    );
  if (execPath !== "" && !/^\/[^\0\n]{1,4095}$/.test(execPath))
    throw new InvalidArgumentError(`exec_path ${quoted(execPath)} of CPI ${name} is no absolute path`);
  if (execPath !== "" && type === FLEET)
    throw new InvalidArgumentError(`CPI ${name} of type ${FLEET} is built in: leave its exec_path out`);
  return description;
}
