import { type Document, isScalar, type Pair, type Scalar, visit } from "yaml";
import type { Fault } from "./document.js";

/** Scalars that YAML 1.1, which BOSH's CLI reads, interprets differently from YAML 1.2. */
const ONLY_IN_1_1: readonly (readonly [RegExp, string])[] = [
  [/^(y|yes|n|no|on|off)$/i, "is true or false in YAML 1.1, and a text in YAML 1.2: write true or false, or quote it"],
  [/^[-+]?0[0-9_]+$/, "is octal in YAML 1.1, and decimal in YAML 1.2: quote it, or write it without leading zeros"],
  [/^[-+]?0[bo][0-7_]+$/, "is a number in one version of YAML only: quote it, or write it as a decimal number"],
  [/^[-+]?(0x[0-9a-f]*|[0-9]+)_[0-9a-f_]*(\.[0-9_]*)?$/i, "is a number in YAML 1.1 only: quote it, or leave the _ out"],
];

/** Base-60 numbers of YAML 1.1, which the CLI does not read as numbers. */
const SEXAGESIMAL = /^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$/;

/**
 * Returns the first scalar that BOSH's CLI would read differently, because a manifest must not depend on the client.
 * `isLeftOut` selects ignored pairs.
 */
export function findTwoMeanings(
  document: Document.Parsed,
  isLeftOut: (key: string, depth: number) => boolean,
): Fault | undefined {
  const is11 = document.directives.yaml.version === "1.1";
  let fault: Fault | undefined;
  visit(document, {
    Pair: (_, pair, path) => (isLeftOut(textOfKey(pair), path.length) ? visit.SKIP : undefined),
    Scalar: (key, node) => {
      const message = node.type === "PLAIN" && node.tag === undefined ? otherMeaning(node, is11, key === "key") : "";
      if (message === "") return undefined;
      fault = { offset: node.range?.[0] ?? 0, message };
      return visit.BREAK;
    },
  });
  return fault;
}

function otherMeaning({ source = "" }: Scalar, is11: boolean, isKey: boolean): string {
  if (is11)
    return SEXAGESIMAL.test(source) ? "is a number to base 60 in YAML 1.1, and a text to the CLI: quote it" : "";
  if (isKey && source === "<<") {
    return "`<<` merges in YAML 1.1 only: begin the manifest with the lines `%YAML 1.1` and `---`, or write the keys out";
  }
  return ONLY_IN_1_1.find(([pattern]) => pattern.test(source))?.[1] ?? "";
}

function textOfKey({ key }: Pair): string {
  return isScalar(key) ? String(key.value) : "";
}
