import { InvalidArgumentError, parseIoLimits } from "@diskmesh/domain";

/** I/O limits of a disk that the orchestrator may change: the mutable parameters of a volume. */
const LIMITS = ["readIops", "writeIops", "readBytesPerSecond", "writeBytesPerSecond", "burstSeconds"] as const;

export type Limits = { readonly [Name in (typeof LIMITS)[number]]: number };

const NONE: Limits = { readIops: 0, writeIops: 0, readBytesPerSecond: 0, writeBytesPerSecond: 0, burstSeconds: 0 };

/**
 * Parses mutable parameters. Returns the limits that result of the present ones, or undefined when the parameters change
 * nothing.
 */
export function limitsFrom(
  parameters: Readonly<Record<string, string>>,
  present: Limits | undefined,
): Limits | undefined {
  const changes = Object.entries(parameters).map(([name, value]) => {
    if (!LIMITS.some((each) => each === name))
      throw new InvalidArgumentError(
        `mutable parameter ${JSON.stringify(name)} is unknown: there are ${LIMITS.join(", ")}`,
      );
    if (!/^\d{1,15}$/.test(value))
      throw new InvalidArgumentError(
        `mutable parameter ${name} is ${JSON.stringify(value)}: give a number, 0 for no limit`,
      );
    return [name, Number(value)];
  });
  const limits: Limits = { ...NONE, ...present, ...Object.fromEntries(changes) };
  parseIoLimits(limits, "mutable_parameters");
  const isChanged = LIMITS.some((name) => limits[name] !== present?.[name]);
  return changes.length > 0 && isChanged ? limits : undefined;
}
