import { join } from "node:path";
import type { CpiConfig as CpiConfigMessage } from "@diskmesh/api/cpi";
import { CPI_NAME_PATTERN, CPI_NAME_RULE, type NamedCpi } from "@diskmesh/cpi";
import { DomainError, hostPortOf, InvalidArgumentError, type JsonObject, messageOf, quoted } from "@diskmesh/domain";
import { type Slots, slotsOfEach } from "@diskmesh/service";
import type { DispatcherConfig } from "../config/config.js";
import { AnswerBudget } from "../executables/answer.js";
import { ExecutableCpi } from "../executables/executable-cpi.js";
import { EXECUTABLE_LIMITS } from "../executables/limits.js";
import type { RunFolder } from "../executables/run-folder.js";
import { FleetCpi } from "../fleet/fleet-cpi.js";
import type { RegistryClients } from "../fleet/registry-client.js";
import { checkCpiNames } from "../model/choice.js";
import { CpiSet, OfferedCpi } from "./cpi-set.js";

/** A CPI as described by the dispatcher's own config or by a director's cpi-config. */
export interface CpiDescription extends NamedCpi {
  readonly type: string;
  /** Empty for BOSH's default path of the type. */
  readonly execPath: string;
  readonly properties: JsonObject;
}

const FLEET = "fleet";

/** Creates CPIs from their descriptions. */
export class CpiMaker {
  readonly #answerBudget: AnswerBudget;
  /** Slots by director and CPI. They outlive a config version, because processes of the previous version still run. */
  readonly #slots: (key: string) => Slots;

  constructor(
    private readonly config: Pick<DispatcherConfig, "executables" | "registry">,
    private readonly registries: RegistryClients,
    private readonly runFolder: RunFolder,
    private readonly limits = EXECUTABLE_LIMITS,
  ) {
    this.#answerBudget = new AnswerBudget(limits.maxAnswersBytes);
    this.#slots = slotsOfEach(config.executables.maxConcurrentCalls);
  }

  /**
   * Creates the CPIs of a director's cpi-config. Throws for ambiguous names. A CPI with an otherwise invalid
   * description is kept, and each of its calls fails.
   */
  makeSet(directorId: string, cpis: readonly CpiConfigMessage[], own: CpiSet): CpiSet {
    checkCpiNames(cpis);
    return new CpiSet(
      cpis.map((cpi) => this.#makeOrNot({ ...cpi, properties: cpi.properties ?? {} }, directorId)),
      own.defaultCpi,
      true,
    );
  }

  #makeOrNot(description: CpiDescription, directorId: string): OfferedCpi {
    try {
      return this.make(description, directorId);
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      const { name, type, migratedFrom } = description;
      return new OfferedCpi(name, type, { why: messageOf(error) }, migratedFrom);
    }
  }

  make(description: CpiDescription, directorId = ""): OfferedCpi {
    const { name, type, migratedFrom } = checked(description);
    const cpi = type === FLEET ? this.#fleet(description) : this.#executable(description, directorId);
    return new OfferedCpi(name, type, cpi, migratedFrom);
  }

  #fleet({ name, properties }: CpiDescription): FleetCpi {
    const { registry_address: address = this.config.registry?.address } = properties;
    if (address === undefined)
      throw new InvalidArgumentError(
        `CPI ${name} has no registry: give properties.registry_address, or \`registry\` in the dispatcher's config`,
      );
    const addresses = [address].flat();
    if (addresses.length === 0 || !addresses.every((one) => typeof one === "string" && hostPortOf(one)))
      throw new InvalidArgumentError(
        `properties.registry_address of CPI ${name} is malformed: give "host:port", or a list of the addresses of one registry's processes`,
      );
    return new FleetCpi(this.registries.at(addresses as string[]));
  }

  #executable(description: CpiDescription, directorId: string): ExecutableCpi {
    const { name, type, properties } = description;
    const { jobsFolder, assumeV1WhenInfoFails, callTimeoutMs, maxConcurrentCalls } = this.config.executables;
    return new ExecutableCpi({
      name,
      execPath: description.execPath === "" ? join(jobsFolder, `${type}_cpi`, "bin", "cpi") : description.execPath,
      jobsFolder,
      properties,
      limits: { ...this.limits, callTimeoutMs, maxConcurrentCalls },
      runFolder: this.runFolder,
      answerBudget: this.#answerBudget,
      slots: this.#slots(JSON.stringify([directorId, name])),
      assumeV1WhenInfoFails,
    });
  }
}

/** Validates the parts of a description that become a path or a program. */
function checked(description: CpiDescription): CpiDescription {
  const { name, type, execPath } = description;
  if (!CPI_NAME_PATTERN.test(type))
    throw new InvalidArgumentError(`the type ${quoted(type)} of CPI ${name} is malformed: ${CPI_NAME_RULE}`);
  if (execPath !== "" && !/^\/[^\0\n]{1,4095}$/.test(execPath))
    throw new InvalidArgumentError(`exec_path ${quoted(execPath)} of CPI ${name} is not an absolute path`);
  if (execPath !== "" && type === FLEET)
    throw new InvalidArgumentError(`CPI ${name} of type ${FLEET} is built in: remove its exec_path`);
  return description;
}
