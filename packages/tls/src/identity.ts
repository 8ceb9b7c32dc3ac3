import { type Identity, parseIdentityUri } from "@diskmesh/domain";

/**
 * Returns the one identity URI among a certificate's subject alternative names. Undefined when there is none or more
 * than one, so that no holder can have two roles.
 */
export function identityOfAlternativeNames(names: string | undefined): Identity | undefined {
  const identities = uriNames(names ?? "").map(parseIdentityUri);
  const [first] = identities;
  return identities.length === 1 ? first : undefined;
}

// Node joins names with ", " and puts a name that holds special characters in quotes, as a JSON string. Splitting at
// commas would let a DNS name such as `"a, URI:spiffe://..."` pass for a URI.
const ALTERNATIVE_NAME = /(?:^|, )([A-Za-z ]+):(?:"(?:[^"\\]|\\.)*"|([^",]*))/y;

function uriNames(names: string): string[] {
  const uris: string[] = [];
  ALTERNATIVE_NAME.lastIndex = 0;
  for (let end = 0; end < names.length; end = ALTERNATIVE_NAME.lastIndex) {
    const match = ALTERNATIVE_NAME.exec(names);
    if (!match) return [];
    if (match[1] === "URI") uris.push(match[2] ?? "");
  }
  return uris;
}
