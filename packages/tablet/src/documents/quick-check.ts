import type { z } from "zod";

type Test = (value: unknown) => boolean;

interface Field {
  readonly test: Test;
  readonly isRequired: boolean;
}

/**
 * Compiles a zod shape to a function that only accepts or rejects a value. Every loaded and committed document is
 * checked, and zod takes several times as long, because it copies each value. Unsupported shapes and checks are left to
 * zod.
 */
export function quickCheckOf(shape: z.ZodType): Test {
  return testOf(shape as unknown as z.core.$ZodTypes) ?? ((value) => shape.safeParse(value).success);
}

function testOf(shape: z.core.$ZodTypes): Test | undefined {
  const { def } = shape._zod;
  const hasChecks = def.checks !== undefined && def.checks.length > 0;
  if (def.type === "number") return numberTest(def);
  if (hasChecks) return undefined;
  switch (def.type) {
    case "string":
      return (value) => typeof value === "string";
    case "boolean":
      return (value) => typeof value === "boolean";
    case "unknown":
      return () => true;
    case "enum":
      return oneOf(Object.values(def.entries));
    case "literal":
      return oneOf(def.values);
    case "optional":
      return orElse(undefined, def.innerType);
    case "nullable":
      return orElse(null, def.innerType);
    case "readonly":
      return quickCheckOf(def.innerType as z.ZodType);
    case "array":
      return arrayTest(quickCheckOf(def.element as z.ZodType));
    case "object":
      return objectTest(def);
    default:
      return undefined;
  }
}

function oneOf(values: readonly unknown[]): Test {
  const [only] = values;
  return values.length === 1 ? (value) => value === only : (value) => values.includes(value);
}

function orElse(other: undefined | null, innerType: z.core.$ZodType): Test {
  const inner = quickCheckOf(innerType as z.ZodType);
  return (value) => value === other || inner(value);
}

function arrayTest(element: Test): Test {
  return (value) => {
    if (!Array.isArray(value)) return false;
    for (const item of value) if (!element(item)) return false;
    return true;
  };
}

/** Accepts finite or whole numbers not below the shape's minimum. */
function numberTest({ checks, ...def }: z.core.$ZodNumberDef): Test | undefined {
  const format = "format" in def ? def.format : undefined;
  if (format !== undefined && format !== "safeint") return undefined;
  let least = Number.NEGATIVE_INFINITY;
  for (const { _zod } of checks ?? []) {
    const check = _zod.def as Partial<z.core.$ZodCheckGreaterThanDef>;
    if (check.check !== "greater_than" || !check.inclusive || typeof check.value !== "number") return undefined;
    least = Math.max(least, check.value);
  }
  const isOfKind: Test = format === undefined ? Number.isFinite : Number.isSafeInteger;
  return (value) => isOfKind(value) && (value as number) >= least;
}

/** Accepts objects with the shape's fields; additional fields only for a loose shape. */
function objectTest({ shape, catchall }: z.core.$ZodObjectDef): Test | undefined {
  const catchallType = catchall?._zod.def.type;
  if (catchallType !== "never" && catchallType !== "unknown") return undefined;
  const isStrict = catchallType === "never";
  const fields = new Map<string, Field>();
  for (const [name, field] of Object.entries(shape)) {
    const type = field as z.ZodType;
    fields.set(name, { test: quickCheckOf(type), isRequired: type._zod.optin !== "optional" });
  }
  const required = [...fields.values()].filter(({ isRequired }) => isRequired).length;
  return (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
    let left = required;
    for (const name in value) {
      const field = fields.get(name);
      if (field === undefined) {
        if (isStrict) return false;
      } else {
        if (!field.test((value as Record<string, unknown>)[name])) return false;
        if (field.isRequired) left--;
      }
    }
    return left === 0;
  };
}
