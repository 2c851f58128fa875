package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const lifetime = 30 * 24 * time.Hour

// certificate writes FOLDER/NAME.crt and .key, signed by FOLDER/ca.crt, which it makes where there is
// none: a server's certificate where hosts are given, else that of a user in groups.
func certificate(arguments []string) error {
	flags := flag.NewFlagSet("certificate", flag.ContinueOnError)
	folder := flags.String("folder", ".", "where ca.crt and all others are")
	name := flags.String("name", "", "name of the files, without .crt and .key")
	user := flags.String("user", "", "common name: the user")
	groups := flags.String("groups", "", "organizations, separated by commas: the user's groups")
	hosts := flags.String("hosts", "", "addresses and DNS names of a server, separated by commas")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	authority, authorityKey, err := readOrMakeAuthority(*folder)
	if err != nil {
		return err
	}
	wanted, err := template(*user, words(*groups))
	if err != nil {
		return err
	}
	wanted.KeyUsage = x509.KeyUsageDigitalSignature
	wanted.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for _, host := range words(*hosts) {
		wanted.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if address := net.ParseIP(host); address != nil {
			wanted.IPAddresses = append(wanted.IPAddresses, address)
		} else {
			wanted.DNSNames = append(wanted.DNSNames, host)
		}
	}
	_, _, err = sign(filepath.Join(*folder, *name), wanted, authority, authorityKey)
	return err
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(sign rune) bool { return sign == ',' })
}

func template(user string, groups []string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: user, Organization: groups},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(lifetime),
		BasicConstraintsValid: true,
	}, nil
}

func readOrMakeAuthority(folder string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	path := filepath.Join(folder, "ca")
	certificate, key, err := read(path)
	if !errors.Is(err, os.ErrNotExist) {
		return certificate, key, err
	}
	wanted, err := template("holdfast-lab", nil)
	if err != nil {
		return nil, nil, err
	}
	wanted.IsCA = true
	wanted.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	return sign(path, wanted, nil, nil)
}

func read(path string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certificateText, err := os.ReadFile(path + ".crt")
	if err != nil {
		return nil, nil, err
	}
	keyText, err := os.ReadFile(path + ".key")
	if err != nil {
		return nil, nil, err
	}
	certificateBlock, _ := pem.Decode(certificateText)
	keyBlock, _ := pem.Decode(keyText)
	if certificateBlock == nil || keyBlock == nil {
		return nil, nil, errors.New(path + ".crt and .key are not PEM")
	}
	certificate, err := x509.ParseCertificate(certificateBlock.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	return certificate, key, err
}

// sign makes a key and writes both; with no authority the certificate signs itself.
func sign(path string, wanted, authority *x509.Certificate, authorityKey *ecdsa.PrivateKey) (
	*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if authority == nil {
		authority, authorityKey = wanted, key
	}
	signed, err := x509.CreateCertificate(rand.Reader, wanted, authority, &key.PublicKey, authorityKey)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	if err := write(path+".key", "EC PRIVATE KEY", secret); err != nil {
		return nil, nil, err
	}
	if err := write(path+".crt", "CERTIFICATE", signed); err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(signed)
	return certificate, key, err
}

func write(path, kind string, content []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
}
