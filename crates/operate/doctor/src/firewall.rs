//! Estimates from the text of a firewall's rules if the firewall accepts packets to a port.

/// The estimate for a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// A rule accepts the port and names the port's number.
    Named,
    /// No rule drops or rejects packets.
    Open,
    /// A rule drops or rejects packets, and no rule names the port.
    Unclear,
}

/// Evaluates the output of `nft list ruleset` or `iptables -S`.
pub(crate) fn passage(rules: &str, port: u16) -> Passage {
    let port = port.to_string();
    let (mut is_refused, mut is_named) = (false, false);
    let mut in_input = true;
    for line in rules.lines().map(str::trim) {
        // A chain of nft with a hook other than input does not affect incoming packets: ignore its
        // rules.
        if line.contains("type filter hook") {
            in_input = line.contains("hook input");
        }
        if line.starts_with("-P FORWARD") || line.starts_with("-P OUTPUT") {
            continue;
        }
        if line == "}" {
            in_input = true;
        }
        if !in_input {
            continue;
        }
        let refuses = ["drop", "reject"]
            .iter()
            .any(|word| line.to_lowercase().split([' ', ';']).any(|found| found == *word));
        is_refused |= refuses;
        let is_accepted = line.to_lowercase().contains("accept");
        let mut named = line.split(|letter: char| !letter.is_ascii_digit());
        is_named |= is_accepted && line.contains("dport") && named.any(|found| found == port);
    }
    match (is_refused, is_named) {
        (false, _) => Passage::Open,
        (true, true) => Passage::Named,
        (true, false) => Passage::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_nft_and_iptables_are_parsed() {
        let nft = "table inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter; \
                   policy drop;\n\t\ttcp dport 22 accept\n\t}\n\tchain forward {\n\t\ttype filter \
                   hook forward priority filter; policy drop;\n\t}\n}\n";
        assert_eq!(passage(nft, 2049), Passage::Unclear);
        let open = nft.replacen("policy drop", "policy accept", 1);
        assert_eq!(passage(&open, 2049), Passage::Open);
        let named = nft.replace("dport 22", "dport { 22, 2049 }");
        assert_eq!(passage(&named, 2049), Passage::Named);
        assert_eq!(passage(&named, 20), Passage::Unclear);
        let iptables =
            "-P INPUT DROP\n-P FORWARD DROP\n-A INPUT -p tcp -m tcp --dport 2049 -j ACCEPT\n";
        assert_eq!(passage(iptables, 2049), Passage::Named);
        assert_eq!(passage(iptables, 2050), Passage::Unclear);
        assert_eq!(passage("-P INPUT ACCEPT\n-P FORWARD DROP\n", 2049), Passage::Open);
        assert_eq!(passage("", 2049), Passage::Open);
    }
}
