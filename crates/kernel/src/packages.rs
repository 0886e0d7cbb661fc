//! Whether the packages of an environment can be had here.

use outlast_protocol::{
    ErrorCode, Problem,
    environment::{Config, Environment},
};

use crate::{Kernel, hand::IMAGE};

impl Kernel {
    /// Refuses an environment that names packages which no hand of this server could have.
    ///
    /// # Errors
    ///
    /// A bad request that names the line of the configuration to add or mend, or what else helps.
    pub fn check_packages(&self, environment: &Environment) -> Result<(), Problem> {
        let Config::Cloud {
            packages,
            networking,
        } = &environment.config;
        let rest = self.0.hands.outlets.rest(Some(networking));
        let image = environment.metadata.get(IMAGE).map(String::as_str);
        for manager in packages.managers() {
            if let Some(lack) = self.options().mirrors.lacks(manager, image, rest) {
                let words = format!("config.packages.{}: {lack}", manager.as_str());
                return Err(Problem::new(ErrorCode::NotSupported, words));
            }
        }
        Ok(())
    }
}
