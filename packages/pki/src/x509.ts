import { webcrypto } from "node:crypto";
import { cryptoProvider } from "@peculiar/x509";

cryptoProvider.set(webcrypto);

// Exports are listed by name, because bundlers cannot enumerate the names of a CommonJS module.
export {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  Pkcs10CertificateRequest,
  Pkcs10CertificateRequestGenerator,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from "@peculiar/x509";
