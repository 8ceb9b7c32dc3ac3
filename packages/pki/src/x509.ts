import { webcrypto } from "node:crypto";
import { cryptoProvider } from "@peculiar/x509";

cryptoProvider.set(webcrypto);

// By their names: in a bundle nobody knows those of a CommonJS module.
export {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from "@peculiar/x509";
