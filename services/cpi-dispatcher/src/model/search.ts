/** Answer of a CPI about an object that is not recorded as its own. */
export type Answer =
  | { readonly says: "has" | "absent" | "deleted" }
  /** The CPI has no method that tells whether the object exists. Only its delete method can tell. */
  | { readonly says: "untold" }
  /** Such a CPI answered the deletion with success, as CPIs may that never had the object. */
  | { readonly says: "claims" }
  | { readonly says: "failed"; readonly why: string };

export type SearchStep =
  /** `isCertain` is false for a CPI that may not have the object. */
  | { readonly do: "delete"; readonly cpi: string; readonly isCertain: boolean }
  | { readonly do: "end"; readonly isFound: boolean }
  | { readonly do: "give_up"; readonly why: string };

/**
 * Decides how the search for an object continues, from the answers of all searched CPIs. Two CPIs that have the object
 * delete nothing, because one of them has another object with the same CID. A claimed deletion proves nothing about the
 * other CPIs, so all of them must have answered.
 */
export function nextSearchStep(answers: ReadonlyMap<string, Answer>): SearchStep {
  const those = (says: Answer["says"]): string[] =>
    [...answers].filter(([, answer]) => answer.says === says).map(([cpi]) => cpi);
  if (those("deleted").length > 0) return { do: "end", isFound: true };
  const holders = those("has");
  const [holder] = holders;
  if (holders.length > 1) return { do: "give_up", why: `${holders.map(shown).join(" and ")} have it` };
  if (holder !== undefined) return { do: "delete", cpi: holder, isCertain: true };
  const [untold] = those("untold");
  if (untold !== undefined) return { do: "delete", cpi: untold, isCertain: false };
  const failed = [...answers].flatMap(([cpi, answer]) =>
    answer.says === "failed" ? [`${shown(cpi)} did not tell: ${answer.why}`] : [],
  );
  if (failed.length > 0) return { do: "give_up", why: failed.join("; ") };
  return { do: "end", isFound: those("claims").length > 0 };
}

function shown(cpi: string): string {
  return cpi === "" ? "the default CPI" : `CPI \`${cpi}\``;
}
